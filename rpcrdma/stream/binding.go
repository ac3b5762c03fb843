package stream

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// A Binding is the Upper-Layer Binding (RFC 8166, Section 6) for one program
// version. It holds the knowledge about the program's messages that is needed
// to carry them over RPC-over-RDMA for an unmodified client or server. Package
// nfs3 has the binding for NFS (RFC 8267). Methods must not keep their
// arguments, must be safe for concurrent use, and must accept arbitrary bytes.
type Binding interface {
	// Program returns the program and version numbers.
	Program() (prog, vers uint32)

	// ArgItem finds the DDP-eligible argument in a call to procedure proc: the
	// position of its first byte in args, the encoded arguments, and its
	// length. The item's bytes and all that follows need not be in args. n is 0
	// if there is no such argument.
	ArgItem(proc uint32, args []byte) (start, n int)

	// ResultItem finds the DDP-eligible result in a served call's results: the
	// position of its first byte, and its length. n is 0 if there is none, or
	// none can be found.
	ResultItem(proc uint32, results []byte) (start, n int)

	// MaxResults returns the maximum length of the results for a call with
	// these arguments, in bytes. item is the maximum length of a DDP-eligible
	// result, or 0 if there can be none. rest is the length of everything
	// except the item and its padding, or -1 if the protocol sets no bound.
	MaxResults(proc uint32, args []byte) (rest, item int)
}

// isReducible reports whether n bytes at start may have been moved out of args:
// the DDP-eligible argument, with its padding or without (RFC 8166, Section
// 6.1).
func isReducible(b Binding, proc uint32, args []byte, start, n int) bool {
	const word = 4 // an item is preceded by its length
	at, length := b.ArgItem(proc, args)
	return at == start && start >= word && (n == length || n == length+xdr.Pad(length))
}

// movableResult finds the DDP-eligible result in results, followed by its padding. n is 0 if
// nothing can be moved.
func movableResult(b Binding, proc uint32, results []byte) (start, n int) {
	start, n = b.ResultItem(proc, results)
	if n <= 0 || start < 0 || n > len(results) || start > len(results)-n-xdr.Pad(n) {
		return 0, 0
	}
	return start, n
}

// A sealedBinding is for calls whose arguments and results may not have the form that their program
// defines, as with RPCSEC_GSS: nothing in them is parsed or moved.
type sealedBinding struct{ Binding }

func (sealedBinding) ArgItem(uint32, []byte) (start, n int)      { return 0, 0 }
func (sealedBinding) ResultItem(uint32, []byte) (start, n int)   { return 0, 0 }
func (sealedBinding) MaxResults(uint32, []byte) (rest, item int) { return -1, 0 }
