package nfs4

// An Item is a DDP-eligible data item: its operation, and the XDR type and
// field that hold the item.
type Item struct {
	Op     Op
	Result bool // a result, otherwise an argument
	Type   string
	Field  string
}

// Items are the DDP-eligible data items of the COMPOUND procedure, by
// operation. No minor version has other items (RFC 8267, Section 6.1), and
// callbacks have none (Sections 6.5.1 and 6.5.2).
//
// A call's Write chunks belong to the results in this table, one chunk per
// result, in operation order. A result without an item also has a chunk, which
// is returned empty (Section 6.4.1).
var Items = [...]Item{
	{Op: OpCreate, Type: "createtype4", Field: "linkdata"}, // in the arm NF4LNK
	{Op: OpRead, Result: true, Type: "READ4resok", Field: "data"},
	{Op: OpReadLink, Result: true, Type: "READLINK4resok", Field: "link"},
	{Op: OpWrite, Type: "WRITE4args", Field: "data"},
}

// DDPEligible reports whether operation op can have an argument, and whether op
// can have a result, that RPC-over-RDMA may carry in a separate chunk.
func DDPEligible(op Op) (arg, result bool) {
	for _, i := range Items {
		if i.Op == op {
			return !i.Result, i.Result
		}
	}
	return false, false
}
