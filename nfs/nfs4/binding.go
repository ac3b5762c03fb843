package nfs4

// Operations that have a DDP-eligible data item (RFC 8881, Section 16.2.3).
const (
	OpCreate   uint32 = 6
	OpRead     uint32 = 25
	OpReadLink uint32 = 27
	OpWrite    uint32 = 38
)

// An Item is a DDP-eligible data item: the operation that it belongs to, and where
// that has it, by the names of the protocol's XDR.
type Item struct {
	Op     uint32
	Result bool // a result, else an argument
	Type   string
	Field  string
}

// Items are the DDP-eligible data items of the COMPOUND procedure, by operation.
// There are no others, in no minor version (RFC 8267, Section 6.1), and none in
// callbacks (Sections 6.5.1 and 6.5.2).
//
// The Write chunks of a call belong to the results that are in this table, one to
// each, in the order of their operations: also to one that turns out not to have its
// item, whose chunk is returned empty (Section 6.4.1).
var Items = [...]Item{
	{Op: OpCreate, Type: "createtype4", Field: "linkdata"}, // of the arm NF4LNK
	{Op: OpRead, Result: true, Type: "READ4resok", Field: "data"},
	{Op: OpReadLink, Result: true, Type: "READLINK4resok", Field: "link"},
	{Op: OpWrite, Type: "WRITE4args", Field: "data"},
}

// DDPEligible reports whether operation op can have an argument, and whether it can
// have a result, that RPC-over-RDMA may carry in a chunk of its own.
func DDPEligible(op uint32) (arg, result bool) {
	for _, i := range Items {
		if i.Op == op {
			return !i.Result, i.Result
		}
	}
	return false, false
}
