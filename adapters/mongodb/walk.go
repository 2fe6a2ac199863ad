package mongodb

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider/adapters"
)

const (
	// pageDocuments is how many documents a walk reads at once.
	pageDocuments = 500

	// lapShare bounds the share of time that goes into laps that find next to nothing: one part of so many.
	lapShare = 20

	// lapFree is how long such a lap may take for nothing.
	lapFree = 20 * time.Millisecond
)

// leg is a part of a lap. Comparisons find values of one type only, so that each has its own.
type leg int

const (
	legDefault leg = iota // documents without a group, and those of the default group
	legGroups             // the other groups, by name
	legOthers             // documents whose group is no text: each alone, and dead
	legs
)

// position is a place between groups: the walk reads on in the leg behind the group of the name.
type position struct {
	leg  leg
	name string
	any  bool // there is a group before
}

// reached reports whether the position is at another one or behind it.
func (p position) reached(other position) bool {
	switch {
	case p.leg != other.leg:
		return p.leg > other.leg
	case p.any != other.any:
		return p.any
	}
	return p.name >= other.name
}

// lap is a walk along all groups, from somewhere back to there. It may take several claims.
type lap struct {
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

// begin begins a lap, unless a claim that began at a time has looked at everything, or there is still time.
func (t *table) begin(claim time.Time) bool {
	l := &t.lap
	if l.running {
		return true
	}
	if !l.whole.Before(claim) || time.Now().Before(l.next) {
		return false
	}
	*l = lap{running: true, start: t.at, began: time.Now(), whole: l.whole, due: l.due}
	return true
}

// moved ends the lap when the walk has come back to where it began.
func (t *table) moved(to position) {
	l := &t.lap
	if t.at = to; to.leg == legs {
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
	if l.took > lapFree && l.got*100 < l.read {
		l.next = time.Now().Add((lapShare - 1) * l.took)
	}
}

// bunch is documents of one group, in their order, from the first unfinished one on; or of legOthers.
type bunch struct {
	name  string
	group string // of the messages; "" for what is alone
	slot  int
	docs  []document
	alone bool
}

// page is what one reading of a walk yields.
type page struct {
	bunches []*bunch
	cut     bool     // there may be more of the last one
	next    position // behind it
}

// read reads a page from the walk's position, or further documents of a group. At most so many groups are in it.
func (t *table) read(ctx context.Context, on *bunch, most int) (p page, err error) {
	began := time.Now()
	defer func() { t.lap.took += time.Since(began) }()
	docs, err := t.find(ctx, t.filter(on), t.order(on))
	if err != nil {
		return p, err
	}
	t.lap.read += len(docs)
	taken, last := 0, ""
	for i := range docs {
		b := t.bunchOf(&docs[i])
		n := len(p.bunches)
		same := b != nil && n > 0 && !b.alone && p.bunches[n-1].name == b.name
		if b != nil && !same && n == most {
			break
		}
		taken++
		switch {
		case same:
			p.bunches[n-1].docs = append(p.bunches[n-1].docs, docs[i])
		case b != nil:
			b.docs = docs[i : i+1 : i+1]
			p.bunches = append(p.bunches, b)
		}
		last, _ = t.nameOf(docs[i].name)
	}
	full := taken < len(docs) || len(docs) == pageDocuments
	p.cut = full && taken == len(docs)
	if p.next = (position{leg: t.at.leg + 1}); t.at.leg == legGroups && full {
		p.next = position{leg: legGroups, name: last, any: true}
	}
	return p, nil
}

// bunchOf begins a group; nil: it is read in another leg.
func (t *table) bunchOf(d *document) *bunch {
	name, ok := t.nameOf(d.name)
	if t.at.leg == legOthers || !ok {
		return &bunch{alone: true, slot: adapters.SlotOf("", d.key)}
	}
	if t.at.leg == legGroups && name == t.q.layout.DefaultGroup {
		return nil
	}
	group := t.group(name)
	return &bunch{name: name, group: group, slot: adapters.SlotOf(group, "")}
}

// filter is what a page has in it.
func (t *table) filter(on *bunch) bson.D {
	f := &t.q.fields
	filter := bson.D{t.q.unfinished()}
	if on != nil {
		last := on.docs[len(on.docs)-1]
		filter = append(filter, t.ofGroup(on.name))
		return append(filter, bson.E{Key: f.Created, Value: bson.D{{Key: "$gte", Value: last.created}}}, behind(f.Created, f.Key, last.created, last.id))
	}
	switch t.at.leg {
	case legDefault:
		return append(filter, t.ofGroup(t.q.layout.DefaultGroup))
	case legGroups:
		after := bson.D{{Key: "$gte", Value: ""}}
		if t.at.any {
			after = bson.D{{Key: "$gt", Value: t.at.name}}
		}
		return append(filter, bson.E{Key: f.Group, Value: after})
	default:
		return append(filter, bson.E{Key: f.Group, Value: bson.D{{Key: "$type", Value: otherTypes}}})
	}
}

// otherTypes are the types of values that are no text and are not missing.
var otherTypes = bson.A{"double", "int", "long", "decimal", "object", "binData", "objectId", "bool", "date", "timestamp", "regex"}

// ofGroup is the condition that a document is of a group.
func (t *table) ofGroup(name string) bson.E {
	if name == t.q.layout.DefaultGroup {
		return bson.E{Key: t.q.fields.Group, Value: in(bson.A{nil, name})}
	}
	return bson.E{Key: t.q.fields.Group, Value: name}
}

// behind is the condition that a document comes after a place in the order of its group.
func behind(created, key string, at, id bson.RawValue) bson.E {
	return bson.E{Key: "$or", Value: bson.A{
		bson.D{{Key: created, Value: bson.D{{Key: "$gt", Value: at}}}},
		bson.D{{Key: created, Value: at}, {Key: key, Value: bson.D{{Key: "$gt", Value: id}}}},
	}}
}

// order is that of groups, and of documents within each.
func (t *table) order(on *bunch) bson.D {
	f := &t.q.fields
	place := bson.D{{Key: f.Created, Value: 1}, {Key: f.Key, Value: 1}}
	if on != nil || t.at.leg == legDefault {
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
