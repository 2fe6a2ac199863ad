package docs

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// docLink is a link as go doc writes it: [Name], [Type.Method], [package.Name], [package.Type.Method].
var docLink = regexp.MustCompile(`(?:^|[\s(,;:])\[\*?([A-Za-z_][\w./]*)\](?:$|[\s.,;:)'?])`)

// TestDocLinksResolve fails for a link in a comment of a declaration or of a package that leads to no declaration. Names of other
// modules are taken as they are when their package is imported.
func TestDocLinksResolve(t *testing.T) {
	t.Parallel()
	packages := packagesOfTree(t)
	for _, p := range packages {
		for _, f := range p.files {
			for _, doc := range docComments(f) {
				for _, link := range links(doc.Text()) {
					if !resolves(packages, p, f, link) {
						t.Errorf("%s: [%s] leads to no declaration", p.fset.Position(doc.Pos()), link)
					}
				}
			}
		}
	}
}

// parsed is a package: its files without tests, and the names that a link can lead to.
type parsed struct {
	fset  *token.FileSet
	files []*ast.File
	names map[string]bool // Name, and Type.Name for methods and fields
}

// packagesOfTree parses the packages of all modules, by import path.
func packagesOfTree(t *testing.T) map[string]*parsed {
	out := map[string]*parsed{}
	err := filepath.WalkDir(root, func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		at := path.Join("github.com/outriderhq/outrider", filepath.ToSlash(folder))
		p := out[at]
		if p == nil {
			p = &parsed{fset: token.NewFileSet(), names: map[string]bool{}}
			out[at] = p
		}
		f, err := parser.ParseFile(p.fset, file, nil, parser.ParseComments)
		if err == nil {
			p.files = append(p.files, f)
			p.declare(f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (p *parsed) declare(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
			p.names[name] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, name := range s.Names {
						p.names[name.Name] = true
					}
				case *ast.TypeSpec:
					p.names[s.Name.Name] = true
					p.members(s)
				}
			}
		}
	}
}

// members adds the fields of a struct and the methods of an interface; those of an alias are not known, and all are taken.
func (p *parsed) members(s *ast.TypeSpec) {
	var fields *ast.FieldList
	switch typ := s.Type.(type) {
	case *ast.StructType:
		fields = typ.Fields
	case *ast.InterfaceType:
		fields = typ.Methods
	default:
		p.names[s.Name.Name+".*"] = s.Assign.IsValid()
		return
	}
	for _, f := range fields.List {
		for _, name := range f.Names {
			p.names[s.Name.Name+"."+name.Name] = true
		}
		if len(f.Names) == 0 { // embedded: its members are declared elsewhere
			p.names[s.Name.Name+".*"] = true
		}
	}
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func (p *parsed) has(name string) bool {
	typ, _, member := strings.Cut(name, ".")
	return p.names[name] || member && p.names[typ+".*"]
}

// docComments are those that go doc shows, and those of unexported declarations.
func docComments(f *ast.File) []*ast.CommentGroup {
	var out []*ast.CommentGroup
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.File:
			out = append(out, n.Doc)
		case *ast.FuncDecl:
			out = append(out, n.Doc)
		case *ast.GenDecl:
			out = append(out, n.Doc)
		case *ast.TypeSpec:
			out = append(out, n.Doc)
		case *ast.ValueSpec:
			out = append(out, n.Doc)
		case *ast.Field:
			out = append(out, n.Doc)
		}
		return true
	})
	return out
}

// links are the links of a comment: what looks like one, outside of code. A lower-case word without a dot is taken for text.
func links(text string) []string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "  ") {
			continue
		}
		for _, m := range docLink.FindAllStringSubmatch(line, -1) {
			if name := m[1]; strings.Contains(name, ".") || name != strings.ToLower(name) && name != strings.ToUpper(name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// resolves reports whether a link in a file of a package leads to a declaration.
func resolves(packages map[string]*parsed, p *parsed, f *ast.File, link string) bool {
	if p.has(link) {
		return true
	}
	slash := strings.LastIndex(link, "/") + 1
	qualifier, name, _ := strings.Cut(link[slash:], ".")
	qualifier = link[:slash] + qualifier
	for _, file := range p.files { // go doc knows the imports of all files of a package
		for _, imported := range file.Imports {
			at, err := strconv.Unquote(imported.Path.Value)
			if err != nil || qualifier != at && qualifier != importName(imported, at) {
				continue
			}
			other := packages[at]
			return other == nil || name == "" || other.has(name)
		}
	}
	if other := packages[qualifier]; other != nil {
		return name == "" || other.has(name)
	}
	if qualifier == f.Name.Name {
		return p.has(name)
	}
	_, standard := comment.DefaultLookupPackage(qualifier)
	return standard
}

func importName(s *ast.ImportSpec, at string) string {
	if s.Name != nil {
		return s.Name.Name
	}
	base := path.Base(at)
	if regexp.MustCompile(`^v\d+$`).MatchString(base) {
		base = path.Base(path.Dir(at))
	}
	return base
}
