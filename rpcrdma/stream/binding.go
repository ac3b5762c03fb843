package stream

import "github.com/nfsrdma/nfsrdma/xdr"

// A Binding is the Upper-Layer Binding (RFC 8166, Section 6) of one version of
// one program. It holds the knowledge of the program's messages that is needed
// to carry them by RPC-over-RDMA for an unmodified client or server. Package
// nfs3 has the binding of NFS (RFC 8267). Methods must not keep their
// arguments, must be safe for concurrent use, and must accept arbitrary bytes.
type Binding interface {
	// Program returns the numbers of the program and of the version.
	Program() (prog, vers uint32)

	// ArgItem finds the DDP-eligible argument of a call of procedure proc: the
	// position of its first byte in args, the encoded arguments, and its
	// length. The item's bytes and all that follows need not be in args. n is 0
	// if there is no such argument.
	ArgItem(proc uint32, args []byte) (start, n int)

	// ResultItem finds the DDP-eligible result in the results of a call that
	// was served: the position of its first byte, and its length. n is 0 if
	// there is none, or none can be found.
	ResultItem(proc uint32, results []byte) (start, n int)

	// MaxResults returns how long the results of a call with these arguments
	// can be, in bytes. item is the length of the longest DDP-eligible result,
	// or 0 if there can be none. rest is the length of everything except the
	// item and its padding, or -1 if the protocol sets no bound.
	MaxResults(proc uint32, args []byte) (rest, item int)
}

// reducible reports whether n bytes may have been moved out of args from start
// on: the DDP-eligible argument, with its padding or without (RFC 8166, Section
// 6.1).
func reducible(b Binding, proc uint32, args []byte, start, n int) bool {
	const word = 4 // an item is preceded by its length
	at, length := b.ArgItem(proc, args)
	return at == start && start >= word && (n == length || n == length+xdr.Pad(length))
}

// movable finds the DDP-eligible result in results, with its padding behind it.
// n is 0 if nothing can be moved.
func movable(b Binding, proc uint32, results []byte) (start, n int) {
	start, n = b.ResultItem(proc, results)
	if n <= 0 || start < 0 || n > len(results) || start > len(results)-n-xdr.Pad(n) {
		return 0, 0
	}
	return start, n
}

// A sealed binding is for calls whose arguments and results may not have the
// form that their program defines, as with RPCSEC_GSS: nothing in them is
// parsed or moved.
type sealed struct{ Binding }

func (sealed) ArgItem(uint32, []byte) (start, n int)      { return 0, 0 }
func (sealed) ResultItem(uint32, []byte) (start, n int)   { return 0, 0 }
func (sealed) MaxResults(uint32, []byte) (rest, item int) { return -1, 0 }
