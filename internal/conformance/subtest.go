package conformance

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
)

// subtest returns the source of the subtest of that name among the
// declarations: the table's rows or the calls of Run that contain the name. ok
// is false if there is none.
func subtest(decls []decl, name string) (source string, ok bool) {
	for _, d := range decls {
		var stack []ast.Node
		ast.Inspect(d.node, func(n ast.Node) bool {
			if n == nil {
				stack = stack[:len(stack)-1]
				return true
			}
			stack = append(stack, n)
			if lit, isLit := n.(*ast.BasicLit); isLit && lit.Kind == token.STRING && subtestName(lit) == name {
				row := holder(stack)
				source, ok = source+d.file.slice(row.Pos(), row.End())+"\n", true
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

// holder returns the innermost table row or call around the last node of stack.
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
