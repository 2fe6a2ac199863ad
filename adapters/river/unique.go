package river

import (
	"context"
	"fmt"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// sameJobsError is the error of an INSERT that has several jobs with one unique key. PostgreSQL refuses it as a whole: ON CONFLICT DO
// UPDATE cannot affect a row twice.
type sameJobsError struct {
	first []int // by index, the jobs without the later ones of a key
	all   int
}

func (e *sameJobsError) Error() string {
	return fmt.Sprintf("%d of %d jobs are duplicates of others", e.repeated(), e.all)
}

func (e *sameJobsError) repeated() int64 { return int64(e.all - len(e.first)) }

// without returns the jobs that are left.
func (e *sameJobsError) without(params []river.InsertManyParams) []river.InsertManyParams {
	left := make([]river.InsertManyParams, len(e.first))
	for i, at := range e.first {
		left[i] = params[at]
	}
	return left
}

// refuseSame returns a [sameJobsError] before anything is sent. It is River's middleware because only there are the unique keys known.
func refuseSame(ctx context.Context, jobs []*rivertype.JobInsertParams, insert func(context.Context) ([]*rivertype.JobInsertResult, error)) ([]*rivertype.JobInsertResult, error) {
	first, seen := make([]int, 0, len(jobs)), make(map[string]bool, len(jobs))
	for i, job := range jobs {
		key := string(job.UniqueKey)
		if key == "" || !seen[key] {
			first = append(first, i)
		}
		seen[key] = true
	}
	if len(first) < len(jobs) {
		return nil, &sameJobsError{first, len(jobs)}
	}
	return insert(ctx)
}
