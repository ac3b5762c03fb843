package conformance

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// A testPackage holds the declarations in a directory's test files, with any build
// tags.
type testPackage struct {
	decls   map[string][]decl // functions, variables, constants and types, by name
	methods map[string][]decl
}

// A decl is a declaration, or a part of one.
type decl struct {
	file *testFile
	node ast.Node
}

// A testFile is a Go source with tests in it.
type testFile struct {
	text string
	fset *token.FileSet
}

// parseDir parses the test files in a package's directory.
func parseDir(fsys fs.FS, dir string) (*testPackage, error) {
	names, err := fs.Glob(fsys, path.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	p := &testPackage{decls: make(map[string][]decl), methods: make(map[string][]decl)}
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		f := &testFile{text: string(text), fset: token.NewFileSet()}
		tree, err := parser.ParseFile(f.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("cannot parse a test file: %w", err)
		}
		for _, d := range tree.Decls {
			p.addDecl(f, d)
		}
	}
	return p, nil
}

// addDecl adds the declarations in d. A single declaration includes the comment
// above d; in a group each has only its own.
func (p *testPackage) addDecl(f *testFile, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		where := p.decls
		if d.Recv != nil {
			where = p.methods
		}
		where[d.Name.Name] = append(where[d.Name.Name], decl{f, d})
	case *ast.GenDecl:
		for _, s := range d.Specs {
			node := ast.Node(s)
			if !d.Lparen.IsValid() {
				node = d
			}
			for _, name := range declaredNames(s) {
				p.decls[name.Name] = append(p.decls[name.Name], decl{f, node})
			}
		}
	}
}

func declaredNames(s ast.Spec) []*ast.Ident {
	switch s := s.(type) {
	case *ast.ValueSpec:
		return s.Names
	case *ast.TypeSpec:
		return []*ast.Ident{s.Name}
	}
	return nil
}

var testFuncPattern = regexp.MustCompile(`^(Test|Fuzz|Example|Benchmark)`)

// usedDecls returns the test's declaration and the declarations in the package's
// tests that it uses, directly or indirectly: its tables and helpers.
func (p *testPackage) usedDecls(test string) []decl {
	all := p.decls[test]
	met := map[ast.Node]bool{all[0].node: true}
	enter := func(more []decl) {
		for _, d := range more {
			if !met[d.node] {
				met[d.node] = true
				all = append(all, d)
			}
		}
	}
	for i := 0; i < len(all); i++ {
		selected := make(map[*ast.Ident]bool) // fields and methods: not package-level names
		ast.Inspect(all[i].node, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				selected[n.Name] = true
			case *ast.SelectorExpr:
				selected[n.Sel] = true
				enter(p.methods[n.Sel.Name])
			case *ast.Ident:
				if !selected[n] && !testFuncPattern.MatchString(n.Name) {
					enter(p.decls[n.Name])
				}
			}
			return true
		})
	}
	return all
}

// sourceText returns the declaration's text, with the comment above it and the rest
// of its last line, which may be a comment.
func (d decl) sourceText() string {
	from := d.node.Pos()
	if doc := docComment(d.node); doc != nil {
		from = doc.Pos()
	}
	return d.file.textBetween(from, d.node.End())
}

func docComment(n ast.Node) *ast.CommentGroup {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return n.Doc
	case *ast.GenDecl:
		return n.Doc
	case *ast.ValueSpec:
		return n.Doc
	}
	return nil
}

// textBetween returns the text between the positions, to its last line's end.
func (f *testFile) textBetween(from, to token.Pos) string {
	begin, end := f.fset.Position(from).Offset, f.fset.Position(to).Offset
	if more := strings.IndexByte(f.text[end:], '\n'); more >= 0 {
		end += more
	}
	return f.text[begin:end]
}
