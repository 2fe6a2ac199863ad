package pgtest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// How many retained rows the plans are tested with: a million in a soak, otherwise fewer,
// because filling the tables is what these tests spend their time on. A plan that reads all
// of them goes beyond every limit with either.
const (
	PlanRows    = 1_000_000
	VariantRows = 100_000
)

// PlanNode is a node of EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON).
type PlanNode struct {
	Type    string     `json:"Node Type"`
	Index   string     `json:"Index Name"`
	Cond    string     `json:"Index Cond"`
	Rows    float64    `json:"Actual Rows"`
	Removed float64    `json:"Rows Removed by Filter"`
	Loops   float64    `json:"Actual Loops"`
	Fetches float64    `json:"Heap Fetches"`
	Hit     int        `json:"Shared Hit Blocks"`
	Read    int        `json:"Shared Read Blocks"`
	Plans   []PlanNode `json:"Plans"`
}

// Walk visits the node and those below it.
func (n *PlanNode) Walk(visit func(*PlanNode)) {
	visit(n)
	for i := range n.Plans {
		n.Plans[i].Walk(visit)
	}
}

// ExplainStatement runs a prepared statement and returns its plan.
func ExplainStatement(t *testing.T, conn *pgx.Conn, name string, values [][]byte) *PlanNode {
	t.Helper()
	params := make([]string, len(values))
	for i, v := range values {
		params[i] = "'" + string(v) + "'"
	}
	q := "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE " + name + "(" + strings.Join(params, ", ") + ")"
	results, err := conn.PgConn().Exec(t.Context(), q).ReadAll()
	Must(t, err)
	var explained []struct {
		Plan PlanNode `json:"Plan"`
	}
	Must(t, json.Unmarshal(results[0].Rows[0][0], &explained))
	return &explained[0].Plan
}

// CheckScans asserts that a plan of any layout reads by its two indexes, sorts
// late positions only and stays within its bounds. entered looks at how an index
// is entered.
func CheckScans(t *testing.T, what string, root *PlanNode, byPosition, byXid string, maxRows, maxBuffers int, entered func(*PlanNode)) {
	t.Helper()
	CheckShape(t, what, root, map[string]int{"Index Scan " + byPosition: 2, "Index Only Scan " + byXid: 2}, 1, maxRows, maxBuffers, entered)
}

// CheckShape is CheckScans for other scans and sorts.
func CheckShape(t *testing.T, what string, root *PlanNode, want map[string]int, wantSorts, maxRows, maxBuffers int, entered func(*PlanNode)) {
	t.Helper()
	indexes := map[string]int{}
	sorts, rows := 0, 0.0
	root.Walk(func(n *PlanNode) {
		switch n.Type {
		case "Index Scan", "Index Only Scan":
			indexes[n.Type+" "+n.Index]++
			rows += (n.Rows + n.Removed) * n.Loops
			entered(n)
		case "Sort":
			sorts++
		case "Seq Scan", "Bitmap Heap Scan", "Bitmap Index Scan", "Hash Join", "Merge Join", "Gather":
			t.Errorf("%s: the plan has a %s", what, n.Type)
		}
	})
	if fmt.Sprint(indexes) != fmt.Sprint(want) {
		t.Errorf("%s: the plan scans %v, want %v", what, indexes, want)
	}
	if sorts != wantSorts {
		t.Errorf("%s: the plan sorts %d times, want %d (late positions only)", what, sorts, wantSorts)
	}
	buffers := root.Hit + root.Read
	t.Logf("%s: %.0f rows, %d buffers", what, rows, buffers)
	if int(rows) > maxRows || buffers > maxBuffers {
		t.Errorf("%s: visited %.0f rows and %d buffers, want at most %d and %d", what, rows, buffers, maxRows, maxBuffers)
	}
}

// ImitatedXID is the transaction of row i of $1: as many transactions as there can
// be, because what counts for the planner is how many there are. All are older than
// what is running, or reads would rightly visit the rows of those that end meanwhile:
// other tests share the server.
const ImitatedXID = "(3 + i * (pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 4) / $1)"
