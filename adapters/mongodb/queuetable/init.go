package queuetable

import (
	"context"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/mongodb/internal/mdb"
)

// definition are FlowCatalyst's indexes.
func definition(l *Layout) (all []index) {
	for _, i := range l.Definitions[layout.MongoDB].Indexes {
		of := index{}
		for field := range strings.SplitSeq(strings.Trim(i.On, "()"), ", ") {
			of.keys = append(of.keys, bson.E{Key: field, Value: 1})
		}
		all = append(all, of)
	}
	return all
}

// wantedIndexes are FlowCatalyst's and ours.
func wantedIndexes(l *Layout) []index { return append(definition(l), ourIndexes(l)...) }

// InitScript returns the commands of mongosh that prepare collections: their indexes, and with a role's name that role, which
// has what a relay needs.
func InitScript(l Layout, database, role string, tables ...Table) string {
	var b strings.Builder
	fmt.Fprintf(&b, "// For mongosh, connected to the database %s.\n", database)
	for _, t := range tables {
		collection := "db.getCollection(" + quoted(t.Name) + ")"
		for _, i := range wantedIndexes(&l) {
			fmt.Fprintf(&b, "%s.createIndex(%s%s);\n", collection, script(i.keys), i.optionsScript())
		}
	}
	if role == "" {
		return b.String()
	}
	remove := ""
	if l.OldIsDeleted {
		remove = `"remove", `
	}
	fmt.Fprintf(&b, "db.createRole({role: %s, roles: [], privileges: [\n", quoted(role))
	for _, t := range tables {
		fmt.Fprintf(&b, "  {resource: {db: %s, collection: %s}, actions: [\"find\", \"update\", %s\"listIndexes\", \"changeStream\"]},\n", quoted(database), quoted(t.Name), remove)
	}
	fmt.Fprintf(&b, "  {resource: {db: %s, collection: \"\"}, actions: [\"listCollections\"]}\n]});\n", quoted(database))
	b.WriteString("// `outrider parked purge` needs the action \"remove\" as well.\n")
	return b.String()
}

func quoted(text string) string {
	out, err := bson.MarshalExtJSON(bson.D{{Key: "v", Value: text}}, false, false)
	if err != nil {
		return `""` // a string can always be written
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(out), `{"v":`), "}")
}

// script is a document as mongosh reads it.
func script(d bson.D) string {
	parts := make([]string, len(d))
	for i, e := range d {
		switch v := e.Value.(type) {
		case bson.D:
			parts[i] = quoted(e.Key) + ": " + script(v)
		case string:
			parts[i] = quoted(e.Key) + ": " + quoted(v)
		default:
			parts[i] = quoted(e.Key) + fmt.Sprint(": ", v)
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (i *index) optionsScript() string {
	if i.name == "" {
		return ""
	}
	return ", {name: " + quoted(i.name) + ", partialFilterExpression: " + script(i.partial) + "}"
}

// Init creates the collections' indexes where they are missing, and with them the collections, and returns a sentence for each thing that it
// created or found. An index of ours that is not as it is wanted is made again.
func Init(ctx context.Context, at Connection, l Layout, tables ...Table) (done []string, err error) {
	if err := validate(&l); err != nil {
		return nil, fmt.Errorf("mongodb queue: layout: %w", err)
	}
	s, err := at.Open()
	if err != nil {
		return nil, fmt.Errorf("mongodb: init: %w", err)
	}
	defer func() { _ = s.Close() }() // what was done is done
	db, err := s.Database(ctx)
	if err != nil {
		return nil, fmt.Errorf("mongodb: init: %w", err)
	}
	for _, t := range tables {
		did, err := initCollection(ctx, db.Collection(t.Name), &l)
		if done = append(done, did...); err != nil {
			return done, fmt.Errorf("mongodb: init: collection %s: %w", t.Name, mdb.Plainly(err))
		}
	}
	return done, nil
}

func initCollection(ctx context.Context, coll *mongo.Collection, l *Layout) (done []string, err error) {
	there, err := indexesOf(ctx, coll)
	if err != nil {
		return nil, err
	}
	if len(there) == 0 {
		done = append(done, "created collection "+coll.Name()) // with its first index
	} else {
		done = append(done, "collection "+coll.Name()+" exists")
	}
	for _, i := range wantedIndexes(l) {
		did, err := i.create(ctx, coll, there)
		if err != nil {
			return done, err
		}
		done = append(done, did)
	}
	return done, nil
}

// create creates an index where it is missing. FlowCatalyst's may have any name.
func (i *index) create(ctx context.Context, coll *mongo.Collection, there []foundIndex) (did string, err error) {
	model := mongo.IndexModel{Keys: i.keys, Options: options.Index()}
	what := coll.Name() + " on " + script(i.keys)
	if i.name != "" {
		what = i.name + " of " + coll.Name()
		model.Options.SetName(i.name).SetPartialFilterExpression(i.partial)
	}
	for _, is := range there {
		switch {
		case i.name == "" && sameKeys(is.Keys, i.keys), i.name == is.Name && i.in(there):
			return "index " + what + " exists", nil
		case i.name == is.Name:
			if err := coll.Indexes().DropOne(ctx, i.name); err != nil {
				return "", err
			}
		}
	}
	_, err = coll.Indexes().CreateOne(ctx, model)
	return "created index " + what, err
}
