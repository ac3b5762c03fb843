package doctor

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRemedies checks in the source that a Finding has a remedy unless it is OK. The commands
// create findings by a method named found.
func TestRemedies(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	of, err := filepath.Glob("../../cmd/*/doctor*.go")
	require.NoError(t, err)
	count := 0
	for _, name := range append(files, of...) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		at := token.NewFileSet()
		file, err := parser.ParseFile(at, name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			var parts []ast.Expr // check, grade, what is found, remedy
			switch n := n.(type) {
			case *ast.CompositeLit:
				parts = n.Elts
			case *ast.CallExpr:
				if method, ok := n.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "found" {
					parts = n.Args
				}
			}
			if len(parts) != 4 {
				return true
			}
			grade := parts[1]
			if of, ok := grade.(*ast.SelectorExpr); ok {
				grade = of.Sel
			}
			word, ok := grade.(*ast.Ident)
			if !ok {
				return true // something else
			}
			count++
			remedy, literal := parts[3].(*ast.BasicLit)
			assert.Equal(t, word.Name == "OK", literal && remedy.Value == `""`, "%v: a remedy is for what is not OK", at.Position(n.Pos()))
			return true
		})
	}
	assert.Greater(t, count, 60)
}
