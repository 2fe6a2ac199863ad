package outrider

import "github.com/outriderhq/outrider/config/flowcatalyst"

// ImportFlowCatalyst turns the configuration of FlowCatalyst's outbox processor,
// a .properties or YAML file, into one of Outrider's. Profile is the one whose
// keys go before those of none; empty: prod. The notes are for the user to read:
// what could not be taken over, and what is to be done. No secret is copied.
func ImportFlowCatalyst(name string, text []byte, profile string) (config []byte, notes []string, err error) {
	r, err := flowcatalyst.Import(name, text, flowcatalyst.Options{Profile: profile})
	return r.Config, r.Notes, err
}
