package pg

import (
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

func TestVersionsThatAreTooOldOrMissRows(t *testing.T) {
	t.Parallel()
	for version, want := range map[int]adapters.Level{
		12_00_22: adapters.LevelBroken, 13_00_00: adapters.LevelOK, 17_00_05: adapters.LevelOK,
		18_00_00: adapters.LevelWarning, 18_00_01: adapters.LevelWarning, 18_00_04: adapters.LevelOK,
	} {
		if f := judgeVersion(version, "x"); f.Level != want || (f.Fix == "") != (want == adapters.LevelOK) {
			t.Errorf("version %d: %+v, want level %v", version, f, want)
		}
	}
}
