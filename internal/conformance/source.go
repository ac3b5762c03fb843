package conformance

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// A testFile is a Go source with tests in it, whatever its build tags.
type testFile struct {
	text  string
	fset  *token.FileSet
	decls map[string]ast.Node // top-level functions, variables, constants and types, by name
}

// parseDir reads the test files of a package's directory.
func parseDir(fsys fs.FS, dir string) ([]*testFile, error) {
	names, err := fs.Glob(fsys, path.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	var files []*testFile
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		f, err := parseTestFile(name, string(text))
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func parseTestFile(name, text string) (*testFile, error) {
	f := &testFile{text: text, fset: token.NewFileSet(), decls: make(map[string]ast.Node)}
	tree, err := parser.ParseFile(f.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("a test file that does not parse: %w", err)
	}
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			f.decls[d.Name.Name] = d
		case *ast.GenDecl:
			for _, s := range d.Specs {
				f.addSpec(d, s)
			}
		}
	}
	return f, nil
}

// addSpec enters what s declares. A declaration of one thing stands for it with
// the comment above; in a group each stands for itself.
func (f *testFile) addSpec(d *ast.GenDecl, s ast.Spec) {
	node := ast.Node(s)
	if !d.Lparen.IsValid() {
		node = d
	}
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			f.decls[n.Name] = node
		}
	case *ast.TypeSpec:
		f.decls[s.Name.Name] = node
	}
}

var isTest = regexp.MustCompile(`^(Test|Fuzz|Example|Benchmark)`)

// used returns the declaration of the test and those of the same file that it
// uses, directly or through others: its tables and helpers.
func (f *testFile) used(test string) []ast.Node {
	var nodes []ast.Node
	met := map[string]bool{test: true}
	for queue := []string{test}; len(queue) > 0; queue = queue[1:] {
		node := f.decls[queue[0]]
		nodes = append(nodes, node)
		ast.Inspect(node, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok || met[id.Name] || isTest.MatchString(id.Name) || f.decls[id.Name] == nil {
				return true
			}
			met[id.Name] = true
			queue = append(queue, id.Name)
			return true
		})
	}
	return nodes
}

// source is the text of a node, with the comment above it and the rest of its
// last line, where a comment may stand.
func (f *testFile) source(n ast.Node) string {
	from, to := n.Pos(), n.End()
	switch n := n.(type) {
	case *ast.FuncDecl:
		if n.Doc != nil {
			from = n.Doc.Pos()
		}
	case *ast.GenDecl:
		if n.Doc != nil {
			from = n.Doc.Pos()
		}
	case *ast.ValueSpec:
		if n.Doc != nil {
			from = n.Doc.Pos()
		}
	}
	text := f.text[f.fset.Position(from).Offset:]
	end := f.fset.Position(to).Offset - f.fset.Position(from).Offset
	if more := strings.IndexByte(text[end:], '\n'); more >= 0 {
		return text[:end+more]
	}
	return text
}

// subtest finds the subtest of that name among nodes and returns its source:
// the table's row or the call of Run that its name stands in. ok is false
// where there is no such name.
func (f *testFile) subtest(nodes []ast.Node, name string) (source string, ok bool) {
	for _, node := range nodes {
		var stack []ast.Node
		ast.Inspect(node, func(n ast.Node) bool {
			if n == nil {
				stack = stack[:len(stack)-1]
				return true
			}
			stack = append(stack, n)
			if lit, isLit := n.(*ast.BasicLit); isLit && lit.Kind == token.STRING && subtestName(lit) == name {
				source, ok = source+f.source(holder(stack))+"\n", true
			}
			return true
		})
	}
	return source, ok
}

// subtestName is the name that package testing gives to a subtest.
func subtestName(lit *ast.BasicLit) string {
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(s), "_")
}

// holder is the innermost row of a table or call around the last node of stack.
func holder(stack []ast.Node) ast.Node {
	for i := len(stack) - 1; i >= 0; i-- {
		switch n := stack[i].(type) {
		case *ast.CompositeLit, *ast.CallExpr:
			return n
		case *ast.KeyValueExpr: // a map's row; a field of a struct has an identifier for its key
			if _, field := n.Key.(*ast.Ident); !field {
				return n
			}
		}
	}
	return stack[len(stack)-1]
}
