package format

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/template/parse"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
)

// valueFilter is the function that every placeholder ends with.
const valueFilter = "outrider_value"

// part is a piece of a simple template: literal text or a field.
type part struct {
	literal string // of a field: its placeholder
	field   func(*message.Message) string
}

// simpleFields are the fields that need no map.
var simpleFields = map[string]func(*message.Message) string{
	"ID":            func(m *message.Message) string { return m.UUID },
	"Type":          entry(outbox.MetaType),
	"Group":         entry(outbox.MetaGroup),
	"AggregateType": entry(outbox.MetaAggregateType),
	"AggregateID":   entry(outbox.MetaAggregateID),
	"Tenant":        entry(outbox.MetaTenant),
	"Route":         routeOf,
}

func entry(key string) func(*message.Message) string {
	return func(m *message.Message) string { return m.Metadata[key] }
}

func routeOf(m *message.Message) string {
	name, _, _ := strings.Cut(m.Metadata[outbox.MetaLane], "/")
	return name
}

func fieldsOf(msg *message.Message) (*Fields, error) {
	f := &Fields{
		ID:            msg.UUID,
		Type:          msg.Metadata[outbox.MetaType],
		Group:         msg.Metadata[outbox.MetaGroup],
		AggregateType: msg.Metadata[outbox.MetaAggregateType],
		AggregateID:   msg.Metadata[outbox.MetaAggregateID],
		Tenant:        msg.Metadata[outbox.MetaTenant],
		Route:         routeOf(msg),
		Tags:          map[string]string{},
		Headers:       msg.Metadata,
	}
	if tags := msg.Metadata[outbox.MetaTags]; tags != "" {
		if err := json.Unmarshal([]byte(tags), &f.Tags); err != nil {
			return nil, fmt.Errorf("metadata %q is not a JSON object of strings: %w", outbox.MetaTags, err)
		}
	}
	return f, nil
}

// simpleParts returns the parts of a template that is text and plain fields
// only, nil for any other. Such templates are rendered without the template
// engine, which costs more than the rest of a message's way to Kafka.
func simpleParts(root *parse.ListNode) []part {
	parts := []part{}
	for _, node := range root.Nodes {
		switch n := node.(type) {
		case *parse.TextNode:
			parts = append(parts, part{literal: string(n.Text)})
		case *parse.ActionNode:
			field := simpleFields[plainField(n.Pipe)]
			if field == nil {
				return nil
			}
			parts = append(parts, part{literal: n.String(), field: field})
		default:
			return nil
		}
	}
	return parts
}

// plainField returns the name in {{.Name}}, "" for any other action.
func plainField(p *parse.PipeNode) string {
	if len(p.Decl) > 0 || len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 1 {
		return ""
	}
	f, ok := p.Cmds[0].Args[0].(*parse.FieldNode)
	if !ok || len(f.Ident) != 1 {
		return ""
	}
	return f.Ident[0]
}

// filterValues ends every pipeline that prints something with [valueFilter], which is told
// the placeholder, the way html/template adds its escapers.
func filterValues(tree *parse.Tree, list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.ActionNode:
			if len(n.Pipe.Decl) == 0 {
				filter := parse.NewIdentifier(valueFilter).SetTree(tree).SetPos(n.Pos)
				text := &parse.StringNode{NodeType: parse.NodeString, Pos: n.Pos, Text: n.String()}
				n.Pipe.Cmds = append(n.Pipe.Cmds, &parse.CommandNode{
					NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{filter, text},
				})
			}
		case *parse.IfNode:
			filterValues(tree, n.List)
			filterValues(tree, n.ElseList)
		case *parse.WithNode:
			filterValues(tree, n.List)
			filterValues(tree, n.ElseList)
		case *parse.RangeNode:
			filterValues(tree, n.List)
			filterValues(tree, n.ElseList)
		}
	}
}
