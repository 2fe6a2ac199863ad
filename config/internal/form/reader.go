package form

import (
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// reader converts the YAML library's tree into [node]s.
type reader struct {
	*Checker
	anchors map[string]*node
}

// value converts one value; path is the way to it, for messages. The result is
// never nil.
func (r *reader) value(n ast.Node, path string) *node {
	switch n := n.(type) {
	case *ast.MappingNode:
		return r.mapping(n.GetToken(), n.Values, path)
	case *ast.MappingValueNode:
		return r.mapping(n.GetToken(), []*ast.MappingValueNode{n}, path)
	case *ast.SequenceNode:
		out := newNode(listNode, n.Start)
		for i, item := range n.Values {
			out.items = append(out.items, r.value(item, itemPath(path, i)))
		}
		return out
	case *ast.AnchorNode:
		out := r.value(n.Value, path)
		r.anchors[n.Name.GetToken().Value] = out
		return out
	case *ast.AliasNode:
		return r.alias(n, path)
	case *ast.TagNode:
		return r.refuse(n.Start, path, "YAML tags are not used here", "remove the tag")
	case nil:
		return &node{kind: nullNode, line: 1, col: 1}
	}
	return r.scalar(n, path)
}

func (r *reader) scalar(n ast.Node, path string) *node {
	tok := n.GetToken()
	out := newNode(textNode, tok)
	switch n := n.(type) {
	case *ast.NullNode:
		out.kind = nullNode
		return out
	case *ast.BoolNode:
		out.kind = boolNode
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.kind = numberNode
	case *ast.StringNode:
		out.quoted = tok.Type == token.SingleQuoteType || tok.Type == token.DoubleQuoteType
	case *ast.LiteralNode:
		out.quoted = true
		out.line, out.col, out.tok = n.Start.Position.Line, n.Start.Position.Column, n.Value.GetToken()
		tok = out.tok
	default:
		return r.refuse(tok, path, "this part of YAML is not used here", "write a plain value")
	}
	out.raw = Unshield(tok.Value)
	out.text = out.raw
	r.expand(out, path)
	return out
}

func (r *reader) mapping(tok *token.Token, values []*ast.MappingValueNode, path string) *node {
	out := newNode(mappingNode, tok)
	if len(values) > 0 && tok.Type == token.MappingValueType {
		// In block style the library's position is that of the first colon.
		out.line, out.col = position(values[0].Key.GetToken())
	}
	for _, v := range values {
		key := r.mapKey(v.Key, path)
		if key == nil {
			out.partial = true
			continue
		}
		value := r.value(v.Value, joinPath(path, key.text))
		if value.tok == nil || value.tok.Type == token.ImplicitNullType {
			value.line, value.col = key.line, key.col
		}
		if first := out.get(key.text); first != nil {
			r.Add(Location{key, nil, joinPath(path, key.text), true}, "the key %s is given twice", keyText(key)).
				Fix("it was first given in line %d; keep one of them", first.key.line)
			continue
		}
		out.add(entry{key, value})
	}
	return out
}

// mapKey converts a key; nil when it has been refused.
func (r *reader) mapKey(n ast.MapKeyNode, path string) *node {
	if n.IsMergeKey() {
		r.refuse(n.GetToken(), path, "merge keys (<<) are not used here", "write the keys out, or use an alias for the whole value")
		return nil
	}
	var inner ast.Node = n
	if explicit, ok := n.(*ast.MappingKeyNode); ok {
		inner = explicit.Value
	}
	switch inner.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		tok := inner.GetToken()
		if tok.Next == nil || tok.Next.Type != token.MappingValueType {
			// Not shown: it may be a value whose key has been lost.
			r.refuse(tok, path, "a key has no colon behind it", "write key: value")
			return nil
		}
		key := newNode(textNode, tok)
		key.text = Unshield(tok.Value)
		key.raw = key.text
		return key
	}
	r.refuse(n.GetToken(), path, "a key must be a plain word", "quote values that begin with a brace: \"{{.Type}}\"")
	return nil
}

// alias follows a name to its node, so that errors inside
// point at where the text is.
func (r *reader) alias(n *ast.AliasNode, path string) *node {
	if target, ok := r.anchors[n.Value.GetToken().Value]; ok {
		return target
	}
	return r.refuse(n.Start, path, "no anchor of this name comes before", "quote values that begin with *: \"*\"")
}

// refuse reports YAML that a configuration cannot have.
func (r *reader) refuse(tok *token.Token, path, message, hint string) *node {
	out := newNode(nullNode, tok)
	out.bad = true
	r.Add(Location{out, nil, path, true}, "%s", message).Fix("%s", hint)
	return out
}

func newNode(kind nodeKind, tok *token.Token) *node {
	line, col := position(tok)
	return &node{kind: kind, line: line, col: col, tok: tok}
}

func position(tok *token.Token) (line, col int) {
	if tok == nil || tok.Position == nil {
		return 1, 1
	}
	return tok.Position.Line, tok.Position.Column
}
