package adapters_test

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/outriderhq/outrider/"

// loaded returns a function that loads a package from what the compiler has exported of it, and the packages of the adapters.
func loaded(t *testing.T) (load func(path string) *types.Package, paths []string) {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", module+"adapters/...", module+"handlers/...")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
		if strings.HasPrefix(path, module+"adapters/") || strings.HasPrefix(path, module+"handlers") {
			paths = append(paths, path)
		}
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	return func(path string) *types.Package {
		p, err := from.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}, paths
}

// An interface is optional only if one implementation lacks it: what all have is a method of the thing itself, so that no caller
// has to ask for it and no branch is for a type that does not exist.
func TestOptionalInterfacesAreOptional(t *testing.T) {
	load, paths := loaded(t)
	contracts := load(module + "adapters")
	named := func(name string) *types.Interface {
		i, _ := contracts.Scope().Lookup(name).Type().Underlying().(*types.Interface)
		return i
	}
	var interfaces []string
	for _, name := range contracts.Scope().Names() {
		if of, is := contracts.Scope().Lookup(name).(*types.TypeName); is && types.IsInterface(of.Type()) {
			interfaces = append(interfaces, name)
		}
	}
	t.Logf("%d interfaces: %s", len(interfaces), strings.Join(interfaces, " "))

	for base, whole := range map[string]string{"Source": "OperatorSource", "Queue": "OperatorQueue", "StateStore": "OperatorStore", "Destination": "Destination"} {
		var all []types.Type
		for _, path := range paths {
			scope := load(path).Scope()
			for _, name := range scope.Names() {
				if of, is := scope.Lookup(name).(*types.TypeName); is && !types.IsInterface(of.Type()) {
					if ptr := types.NewPointer(of.Type()); types.Implements(ptr, named(base)) {
						all = append(all, ptr)
					}
				}
			}
		}
		if len(all) < 2 {
			t.Fatalf("%d implementations of %s were found", len(all), base)
		}
		for _, name := range interfaces {
			have := slices.DeleteFunc(slices.Clone(all), func(of types.Type) bool { return !types.Implements(of, named(name)) })
			if w := named(whole); len(have) == len(all) && (w == nil || !types.Implements(contracts.Scope().Lookup(whole).Type(), named(name))) {
				t.Errorf("all %d implementations of %s are a %s: make its methods a part of %s", len(all), base, name, whole)
			}
		}
	}
}
