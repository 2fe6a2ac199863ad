package main

import (
	"strings"
	"testing"
)

func TestFailuresAreListedByTest(t *testing.T) {
	t.Parallel()
	const out = `not json
{"Action":"output","Package":"p","Test":"TestA/one","Output":"it broke\n"}
{"Action":"fail","Package":"p","Test":"TestA/one"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p"}
{"Action":"output","Package":"q","Output":"panic: out of time\n"}
{"Action":"fail","Package":"q"}
`
	all := newFailures()
	for range 2 {
		all.add(read(strings.NewReader(out)))
	}
	all.add(map[string]string{"q": ""})
	var text strings.Builder
	all.print(&text)
	const want = "\n--- q\npanic: out of time\n\n--- p TestA/one\nit broke\n\nfailed how often:\n   3  q\n   2  p TestA/one\n"
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}

func TestWhatRunsIsCounted(t *testing.T) {
	t.Parallel()
	if status := run([]string{"-n", "2", "-busy", "0", "--", "true"}); status != 0 {
		t.Errorf("what succeeds ends with %d", status)
	}
	if status := run([]string{"-n", "1", "-busy", "0", "--", "false"}); status != 1 {
		t.Errorf("what fails ends with %d", status)
	}
	if status := run([]string{"-n", "0", "--", "true"}); status != 2 {
		t.Errorf("no runs end with %d", status)
	}
}
