package queuetable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// table is one collection and what is known about it.
type table struct {
	Table
	q *Queue
}

// ID implements [queue.Driver].
func (t *table) ID() string { return t.Name }

// Describe implements [queue.Driver]. [Queue.Check] inspects the collection.
func (t *table) Describe(ctx context.Context) error {
	_, err := t.collection(ctx)
	return err
}

// The names of our indexes.
const (
	groupIndex = "outrider_group" // what is unfinished, by group
	ageIndex   = "outrider_age"   // the same, by age
	heldIndex  = "outrider_held"  // what is being processed, by when it was claimed
	deadIndex  = "outrider_dead"  // what was given up, by age
	doneIndex  = "outrider_done"  // what was delivered, by age
)

// index is an index that is wanted.
type index struct {
	name    string
	keys    bson.D
	partial bson.D // nil: all documents
	vital   bool   // claims cannot do without
}

// indexes are ours.
func (q *Queue) indexes() []index { return ourIndexes(q.layout) }

func ourIndexes(l *Layout) []index {
	f, st := l.Fields, &l.Statuses
	unfinished := bson.D{{Key: f.Status, Value: bson.D{{Key: "$gte", Value: firstUnfinished(l)}}}}
	all := []index{
		{groupIndex, fields(f.Group, f.Created, f.Key), unfinished, true},
		{ageIndex, fields(f.Created, f.Key), unfinished, true},
		{heldIndex, fields(f.Claimed), bson.D{{Key: f.Status, Value: st.Processing}}, false},
		// The status is first, because servers before 5.0 have one index of a key.
		{deadIndex, fields(f.Status, f.Created, f.Key), bson.D{{Key: f.Status, Value: st.Dead}}, false},
	}
	if l.OldIsDeleted {
		all = append(all, index{doneIndex, fields(f.Status, f.Created), bson.D{{Key: f.Status, Value: st.Done}}, false})
	}
	return all
}

// found describes a collection.
type found struct {
	Name    string `bson:"name"`
	Type    string `bson:"type"`
	Options struct {
		Collation bson.Raw `bson:"collation"`
	} `bson:"options"`
}

// foundIndex describes an index of a collection.
type foundIndex struct {
	Name    string   `bson:"name"`
	Keys    bson.D   `bson:"key"`
	Partial bson.Raw `bson:"partialFilterExpression"`
}

// inspect checks the collection, and returns the indexes of ours that are missing.
func (t *table) inspect(ctx context.Context) (missing []index, err error) {
	db, err := t.q.server.Database(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkCollection(ctx, db, t.Name); err != nil {
		return nil, err
	}
	there, err := indexesOf(ctx, db.Collection(t.Name))
	if err != nil {
		return nil, err
	}
	for _, want := range t.q.indexes() {
		if !want.in(there) {
			missing = append(missing, want)
		}
	}
	return missing, nil
}

// errMissing says that there is no such collection.
var errMissing = errors.New("does not exist; create it with `outrider init`, or correct its name, or that of the database")

// checkCollection refuses what is no collection, and one that compares text in another way than claims do.
func checkCollection(ctx context.Context, db *mongo.Database, name string) error {
	cursor, err := db.ListCollections(ctx, bson.D{{Key: "name", Value: name}})
	if err != nil {
		return err
	}
	var all []found
	if err := cursor.All(ctx, &all); err != nil {
		return err
	}
	for _, c := range all {
		switch {
		case c.Name != name:
		case c.Type != "" && c.Type != "collection":
			return fmt.Errorf("%s in database %s is a %s; name the collection that it is of", name, db.Name(), c.Type)
		case c.Options.Collation != nil && c.Options.Collation.Lookup("locale").String() != `"simple"`:
			return fmt.Errorf("collection %s has the collation %s: groups and keys must be compared byte by byte; make it anew without one", name, c.Options.Collation)
		default:
			return nil
		}
	}
	return fmt.Errorf("collection %s in database %s %w", name, db.Name(), errMissing)
}

func indexesOf(ctx context.Context, coll *mongo.Collection) (all []foundIndex, err error) {
	cursor, err := coll.Indexes().List(ctx)
	if err != nil {
		return nil, err
	}
	err = cursor.All(ctx, &all)
	return all, err
}

// in reports whether the index is among those of a collection, as it is wanted.
func (i *index) in(there []foundIndex) bool {
	want, err := bson.Marshal(i.partial)
	if err != nil {
		return false
	}
	for _, is := range there {
		if is.Name == i.name && sameKeys(is.Keys, i.keys) && is.Partial.String() == bson.Raw(want).String() {
			return true
		}
	}
	return false
}

// sameKeys compares the fields of indexes; a direction is a number of any type.
func sameKeys(a, b bson.D) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Key != b[i].Key || fmt.Sprint(a[i].Value) != fmt.Sprint(b[i].Value) {
			return false
		}
	}
	return true
}

// keyIndex is the index of keys, which every collection has. Statements name it that say the keys of what they want: a server that compares
// plans may otherwise take FlowCatalyst's index of the status, and read all that waits.
func (q *Queue) keyIndex() bson.D { return fields(q.fields.Key) }

// Filters.

// unfinished is the condition of the indexes of what is unfinished, word for word.
func (q *Queue) unfinished() bson.E {
	return bson.E{Key: q.fields.Status, Value: bson.D{{Key: "$gte", Value: q.first}}}
}

// waiting is the condition that a document waits.
func (q *Queue) waiting() bson.E {
	return bson.E{Key: q.fields.Status, Value: in(q.layout.Statuses.Waiting())}
}

// unfinishedOnly leaves out statuses that mean nothing to the layout.
func (q *Queue) unfinishedOnly(statuses ...string) bson.E {
	return bson.E{Key: q.fields.Status, Value: bson.D{{Key: "$gte", Value: q.first}, {Key: "$in", Value: statuses}}}
}

// in is the condition that a field has one of the values.
func in[T any](values []T) bson.D { return bson.D{{Key: "$in", Value: values}} }

// date is a time as documents have it.
func date(at time.Time) bson.DateTime { return bson.NewDateTimeFromTime(at) }
