package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/outriderhq/outrider/adapters"
)

// Version is a version that state tables can have, with the statements that lead to it from the one before.
type Version struct {
	Number int64
	Up     string
}

// wholeStatement removes what tells goose that a statement has semicolons in it.
var wholeStatement = strings.NewReplacer("-- +goose StatementBegin\n", "", "-- +goose StatementEnd\n", "")

// Versions reads them from the files of migrations, in order.
func Versions(files fs.ReadFileFS) (versions []Version, err error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	slices.Sort(names)
	for _, name := range names {
		number, _, _ := strings.Cut(path.Base(name), "_")
		version, parseErr := strconv.ParseInt(number, 10, 64)
		text, readErr := files.ReadFile(name)
		err = errors.Join(err, parseErr, readErr)
		_, up, _ := strings.Cut(string(text), "-- +goose Up\n")
		up, _, _ = strings.Cut(up, "-- +goose Down")
		up = wholeStatement.Replace(up)
		versions = append(versions, Version{version, strings.TrimSpace(up)})
	}
	if err == nil && len(versions) == 0 {
		err = errors.New("no migrations")
	}
	return versions, err
}

// Newest is the version that this program needs.
func Newest(files fs.ReadFileFS) (int64, error) {
	versions, err := Versions(files)
	if err != nil {
		return 0, err
	}
	return versions[len(versions)-1].Number, nil
}

// PrintVersions adds the statements of all versions, each with what says in a table that it was reached; write completes them.
func PrintVersions(b *strings.Builder, files fs.ReadFileFS, table string, write func(string) string) error {
	versions, err := Versions(files)
	for _, v := range versions {
		fmt.Fprintf(b, "\n-- Version %d\n%s\n"+reached, v.Number, write(v.Up), table, v.Number)
	}
	return err
}

// Reached says that a version was reached.
func Reached(table string, version int64) string { return fmt.Sprintf(reached, table, version) }

const reached = "INSERT INTO %s (version_id, is_applied) VALUES (%d, true);\n"

// majorStep is the distance of two major versions of the tables: 1000 begins the second one. Within a major version, tables are only added to, so
// a program works with tables of a later one than its own. A migration that takes away what a former program needs begins the next.
const majorStep = 1000

// StateVersion implements [adapters.OperatorStore].
func (o *Operators) StateVersion(ctx context.Context) (present, newest int64, err error) {
	if newest, err = Newest(o.db.Migrations); err == nil {
		present, err = o.db.Version(ctx)
	}
	if major := newest / majorStep; err == nil && present/majorStep > major {
		return present, newest, fmt.Errorf("%w: they have version %d, and this program uses versions below %d: run the release that upgraded them, or a later one, "+
			"or restore the state from a backup made before the upgrade", adapters.ErrStateTooNew, present, (major+1)*majorStep)
	}
	return present, newest, o.db.Wrap("read the version of the state tables", err)
}
