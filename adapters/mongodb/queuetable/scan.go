package queuetable

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider/adapters"
)

const (
	// pageDocuments is how many documents a scan reads at once.
	pageDocuments = 500

	// roundShare bounds the share of time that goes into rounds that find next to nothing: one part of so many.
	roundShare = 20

	// roundFree is how long such a round may take for nothing.
	roundFree = 20 * time.Millisecond
)

// section is a part of a round. Comparisons find values of one type only, so that each has its own.
type section int

const (
	sectionDefault section = iota // documents without a group, and those of the default group
	sectionGroups                 // the other groups, by name
	sectionOthers                 // documents whose group is no text: each alone, and dead
	sections
)

// position is a place between groups: the scan reads on in the section behind the group of the name.
type position struct {
	section section
	name    string
	any     bool // there is a group before
}

// reached reports whether the position is at another one or behind it.
func (p position) reached(other position) bool {
	switch {
	case p.section != other.section:
		return p.section > other.section
	case p.any != other.any:
		return p.any
	}
	return p.name >= other.name
}

// round is a scan along all groups, from somewhere back to there. It may take several claims.
type round struct {
	running bool
	start   position
	wrapped bool // the end of the index is behind it
	began   time.Time
	took    time.Duration // reading alone
	read    int           // documents
	got     int           // that were claimed
	left    bool          // groups were left because there was no room

	due time.Time // when something that this claim has seen may be claimed

	whole time.Time // when the latest one began that has come to its end
	next  time.Time // when another one may begin
}

// begin begins a round, unless a claim that began at a time has looked at everything, or there is still time.
func (t *table) begin(claim time.Time) bool {
	l := &t.round
	if l.running {
		return true
	}
	if !l.whole.Before(claim) || time.Now().Before(l.next) {
		return false
	}
	*l = round{running: true, start: t.at, began: time.Now(), whole: l.whole, due: l.due}
	return true
}

// moved ends the round when the scan has come back to where it began.
func (t *table) moved(to position) {
	l := &t.round
	if t.at = to; to.section == sections {
		t.at, l.wrapped = position{}, true
	}
	if !l.wrapped || !t.at.reached(l.start) {
		return
	}
	l.running, l.next = false, time.Time{}
	if l.left {
		return // it has not looked at everything
	}
	l.whole = l.began
	if l.took > roundFree && l.got*100 < l.read {
		l.next = time.Now().Add((roundShare - 1) * l.took)
	}
}

// run is the documents of one group, in their order, from the first unfinished one on; or of sectionOthers.
type run struct {
	name  string
	group string // of the messages; "" for what is alone
	slot  int
	docs  []document
	alone bool
}

// page is what one reading of a scan yields.
type page struct {
	runs []*run
	cut  bool     // there may be more of the last one
	next position // behind it
}

// read reads a page from the scan's position, or further documents of a group. At most so many groups are in it.
func (t *table) read(ctx context.Context, on *run, most int) (p page, err error) {
	began := time.Now()
	defer func() { t.round.took += time.Since(began) }()
	docs, err := t.find(ctx, t.filter(on), t.order(on))
	if err != nil {
		return p, err
	}
	t.round.read += len(docs)
	taken, last, named := 0, "", false
	for i := range docs {
		b := t.runOf(&docs[i])
		n := len(p.runs)
		same := b != nil && n > 0 && !b.alone && p.runs[n-1].name == b.name
		if b != nil && !same && n == most {
			break
		}
		taken++
		switch {
		case same:
			p.runs[n-1].docs = append(p.runs[n-1].docs, docs[i])
		case b != nil:
			b.docs = docs[i : i+1 : i+1]
			p.runs = append(p.runs, b)
		}
		if name, ok := t.nameOf(docs[i].name); ok {
			last, named = name, true
		}
	}
	full := taken < len(docs) || len(docs) == pageDocuments
	p.cut = full && taken == len(docs)
	if p.next = (position{section: t.at.section + 1}); t.at.section == sectionGroups && full && named {
		p.next = position{section: sectionGroups, name: last, any: true}
	}
	return p, nil
}

// runOf begins a group; nil: it is read in another section.
func (t *table) runOf(d *document) *run {
	name, ok := t.nameOf(d.name)
	if t.at.section == sectionOthers || !ok {
		return &run{alone: true, slot: adapters.SlotOf("", textOf(d.id))}
	}
	if t.at.section == sectionGroups && name == t.q.layout.DefaultGroup {
		return nil
	}
	group := t.group(name)
	return &run{name: name, group: group, slot: adapters.SlotOf(group, "")}
}

// filter is what a page has in it.
func (t *table) filter(on *run) bson.D {
	f := &t.q.fields
	filter := bson.D{t.q.unfinished()}
	if on != nil {
		last := on.docs[len(on.docs)-1]
		filter = append(filter, t.ofGroup(on.name))
		return append(filter, bson.E{Key: f.Created, Value: bson.D{{Key: "$gte", Value: last.created}}}, behind(f.Created, f.Key, last.created, last.id))
	}
	switch t.at.section {
	case sectionDefault:
		return append(filter, t.ofGroup(t.q.layout.DefaultGroup))
	case sectionGroups:
		after := bson.D{{Key: "$gte", Value: ""}}
		if t.at.any {
			after = bson.D{{Key: "$gt", Value: t.at.name}}
		}
		return append(filter, bson.E{Key: f.Group, Value: after})
	default:
		return append(filter, bson.E{Key: f.Group, Value: otherGroup})
	}
}

// otherGroup is the condition that a group is no text and not missing. An array is found by its elements where one of them is either.
var otherGroup = bson.D{{Key: "$exists", Value: true}, {Key: "$not", Value: bson.D{{Key: "$type", Value: bson.A{"string", "null"}}}}}

// ofGroup is the condition that a document is of one of the groups.
func (t *table) ofGroup(names ...string) bson.E {
	values := bson.A{}
	for _, name := range names {
		if values = append(values, name); name == t.q.layout.DefaultGroup {
			values = append(values, nil)
		}
	}
	if len(values) == 1 {
		return bson.E{Key: t.q.fields.Group, Value: values[0]}
	}
	return bson.E{Key: t.q.fields.Group, Value: in(values)}
}

// behind is the condition that a document comes after a place in the order of its group.
func behind(created, key string, at, id bson.RawValue) bson.E {
	return bson.E{Key: "$or", Value: bson.A{
		bson.D{{Key: created, Value: bson.D{{Key: "$gt", Value: at}}}},
		bson.D{{Key: created, Value: at}, {Key: key, Value: bson.D{{Key: "$gt", Value: id}}}},
	}}
}

// order is that of groups, and of documents within each.
func (t *table) order(on *run) bson.D {
	f := &t.q.fields
	place := bson.D{{Key: f.Created, Value: 1}, {Key: f.Key, Value: 1}}
	if on != nil || t.at.section == sectionDefault {
		return place
	}
	return append(bson.D{{Key: f.Group, Value: 1}}, place...)
}

// find reads documents along the index of groups.
func (t *table) find(ctx context.Context, filter, order bson.D) (docs []document, err error) {
	cursor, err := t.coll.Find(ctx, filter, options.Find().SetSort(order).SetLimit(pageDocuments).SetBatchSize(pageDocuments).SetHint(groupIndex).SetProjection(t.q.slim()))
	if err != nil {
		return nil, err
	}
	err = each(ctx, cursor, func(raw bson.Raw) bool {
		docs = append(docs, t.q.read(raw))
		return true
	})
	return docs, err
}

// each calls a function with the documents of a cursor until it returns false.
func each(ctx context.Context, cursor *mongo.Cursor, f func(bson.Raw) bool) error {
	defer func() {
		ctx, cancel := background(ctx)
		defer cancel()
		_ = cursor.Close(ctx) // Err returns the error
	}()
	for cursor.Next(ctx) {
		if !f(cursor.Current) {
			return nil
		}
	}
	return cursor.Err()
}
