package lane

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// A session has at most 25 methods: what belongs to one of its parts goes there.
func TestSessionIsSmall(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var methods []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			if p, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok {
				if id, ok := p.X.(*ast.Ident); ok && id.Name == "Session" {
					methods = append(methods, f.Name.Name)
				}
			}
		}
	}
	if len(methods) == 0 || len(methods) > 25 {
		t.Errorf("the session has %d methods, want at most 25: %s", len(methods), strings.Join(methods, ", "))
	}
}
