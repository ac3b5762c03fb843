package conformance

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
)

// subtestSource returns the source for the subtest with that name in the
// declarations: the table rows or the calls to Run that contain the name. ok is
// false if there is none.
func subtestSource(decls []decl, name string) (source string, ok bool) {
	for _, d := range decls {
		var stack []ast.Node
		ast.Inspect(d.node, func(n ast.Node) bool {
			if n == nil {
				stack = stack[:len(stack)-1]
				return true
			}
			stack = append(stack, n)
			if lit, isLit := n.(*ast.BasicLit); isLit && lit.Kind == token.STRING && subtestName(lit) == name {
				row := enclosingRow(stack)
				source, ok = source+d.file.textBetween(row.Pos(), row.End())+"\n", true
			}
			return true
		})
	}
	return source, ok
}

// subtestName returns the name that package testing gives to a subtest.
func subtestName(lit *ast.BasicLit) string {
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(s), "_")
}

// enclosingRow returns the innermost table row or call around the last node of stack.
func enclosingRow(stack []ast.Node) ast.Node {
	for i := len(stack) - 1; i >= 0; i-- {
		switch n := stack[i].(type) {
		case *ast.CompositeLit, *ast.CallExpr:
			return n
		case *ast.KeyValueExpr: // a map's row; a struct's field has an identifier as its key
			if _, field := n.Key.(*ast.Ident); !field {
				return n
			}
		}
	}
	return stack[len(stack)-1]
}
