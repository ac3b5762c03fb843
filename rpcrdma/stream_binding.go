package rpcrdma

import "github.com/nfsrdma/nfsrdma/xdr"

// A Binding is the Upper-Layer Binding (RFC 8166, Section 6) of one version of
// one program: what has to be known of messages that somebody else has made, or
// will take apart, for them to go by RPC-over-RDMA. Package nfs3 has that of NFS
// (RFC 8267). Its methods keep nothing of what they get, and are called by many
// goroutines at once. What they get may be anything.
type Binding interface {
	// Program returns the numbers of the program and of the version.
	Program() (prog, vers uint32)

	// ArgItem finds the DDP-eligible argument of a call of procedure proc:
	// where its octets begin in args, the encoded arguments, and how many
	// they are. They, and what is behind them, need not be in args. n is 0
	// where there is no such argument.
	ArgItem(proc uint32, args []byte) (start, n int)

	// ResultItem finds the DDP-eligible result in the results of a call that
	// was served: where its octets begin, and how many they are. n is 0
	// where there is none, or none that can be found.
	ResultItem(proc uint32, results []byte) (start, n int)

	// MaxResults returns how long the results of a call with these arguments
	// can be, in octets: the longest DDP-eligible result, or 0 where there
	// can be none, and all the rest without that and its padding, or -1
	// where the protocol sets no bound.
	MaxResults(proc uint32, args []byte) (rest, item int)
}

// reducible tells whether n octets may have been moved out of args from start on:
// the DDP-eligible argument, with its padding or without (RFC 8166, Section 6.1).
func reducible(b Binding, proc uint32, args []byte, start, n int) bool {
	const word = 4 // an item has its length in front
	at, length := b.ArgItem(proc, args)
	return at == start && start >= word && (n == length || n == length+xdr.Pad(length))
}

// movable finds the DDP-eligible result in results, with its padding behind it.
// n is 0 where there is nothing to move.
func movable(b Binding, proc uint32, results []byte) (start, n int) {
	start, n = b.ResultItem(proc, results)
	if n <= 0 || start < 0 || n > len(results) || start > len(results)-n-xdr.Pad(n) {
		return 0, 0
	}
	return start, n
}

// A sealed binding is that of calls whose arguments and results may not be what
// their program says: nothing of them is looked into, nor moved.
type sealed struct{ Binding }

func (sealed) ArgItem(uint32, []byte) (start, n int)      { return 0, 0 }
func (sealed) ResultItem(uint32, []byte) (start, n int)   { return 0, 0 }
func (sealed) MaxResults(uint32, []byte) (rest, item int) { return -1, 0 }
