package queue

import (
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
)

func TestJSONChecksThePayloadAndTakesTheTypeOutOfIt(t *testing.T) {
	t.Parallel()
	inside := &layout.Queue{TypeInPayload: true}
	for _, tt := range []struct {
		payload, wantType, wantErr string
		layout                     *layout.Queue
	}{
		{payload: `{"type":"a"}`, layout: inside, wantType: "a"},
		{payload: `{"type":"a"}`, layout: &layout.Queue{}, wantType: "column"},
		{payload: `{"type":1}`, layout: inside, wantType: "column"},
		{payload: `{"type":""}`, layout: inside, wantType: "column"},
		{payload: `""`, layout: inside, wantType: "column"},
		{payload: ``, layout: inside, wantType: "column", wantErr: "is empty"},
		{payload: `{"type":"a"`, layout: inside, wantType: "column", wantErr: "not valid JSON"},
		{payload: strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001), layout: inside, wantType: "column", wantErr: "nested more than 10000 deep"},
	} {
		row := &adapters.Row{Type: "column", Payload: []byte(tt.payload)}
		err := JSON(row, tt.layout)
		if row.Type != tt.wantType || (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
			t.Errorf("payload %.20q: type %q, error %v; want %q, %q", tt.payload, row.Type, err, tt.wantType, tt.wantErr)
		}
	}
}
