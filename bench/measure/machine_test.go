package measure

import (
	"strings"
	"testing"
)

func TestHardwareTellsThatServersAreNotPinned(t *testing.T) {
	t.Parallel()
	if text := hardware([]int{0, 1}); !strings.Contains(text, "pinned to [0 1] (not the servers)") {
		t.Errorf("got %q", text)
	}
	if text := hardware(nil); strings.Contains(text, "pinned") || !strings.Contains(text, " processors") {
		t.Errorf("got %q", text)
	}
}
