package nfs3

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// DDPEligible reports whether procedure proc has an argument, and whether proc
// has a result, that RPC-over-RDMA may carry in a separate chunk: the data of
// WRITE and READ, the path of SYMLINK and READLINK, and nothing else (RFC 8267,
// Section 4).
func DDPEligible(proc uint32) (arg, result bool) {
	switch proc {
	case ProcWrite, ProcSymlink:
		return true, false
	case ProcRead, ProcReadLink:
		return false, true
	}
	return false, false
}

// A Binding is this program's Upper-Layer Binding (RFC 8267, Section 4): the
// facts about a message that a transport needs. Pass a Binding to
// stream.Listen.
type Binding struct{}

// Program returns the program number and version.
func (Binding) Program() (prog, vers uint32) { return Program, Version }

// ArgItem returns the start of a call's DDP-eligible argument in args, which
// need not contain the argument itself, and its length, both in bytes. The
// length is 0 if the call has no such argument.
func (Binding) ArgItem(proc uint32, args []byte) (start, n int) {
	if arg, _ := DDPEligible(proc); !arg {
		return 0, 0
	}
	r := xdr.NewReader(args)
	if proc == ProcWrite {
		var file FH
		file.Decode(&r)
		r.Fixed(8 + 4 + 4) // offset, count, stable_how
	} else {
		var where DirOpArgs
		var attr SetAttr
		where.Decode(&r)
		attr.Decode(&r)
	}
	length := r.Uint32()
	if r.Err() != nil || length > unbounded {
		return 0, 0
	}
	return r.Offset(), int(length)
}

// ResultItem returns the start of a call's DDP-eligible result in results, and
// its length, both in bytes. The length is 0 if the results have no such item,
// for example after a failed call, or if they cannot be decoded.
func (Binding) ResultItem(proc uint32, results []byte) (start, n int) {
	r := xdr.NewReader(results)
	var item []byte
	switch proc {
	case ProcRead:
		var s ReadRes
		s.Decode(&r)
		item = s.Data
	case ProcReadLink:
		var s ReadLinkRes
		s.Decode(&r)
		item = s.Path
	}
	if r.Done() != nil {
		return 0, 0
	}
	n = len(item) // the item is last in the results
	return len(results) - n - xdr.Pad(n), n
}

// MaxResults returns the maximum length of the results of a call with these
// arguments, in bytes: item for the DDP-eligible result, or 0 if the call has
// none, and rest for the remaining results without its padding.
func (Binding) MaxResults(proc uint32, args []byte) (rest, item int) {
	r := xdr.NewReader(args)
	switch proc {
	case ProcRead:
		var a ReadArgs
		a.Decode(&r)
		return MaxResult(proc, 0), int(a.Count)
	case ProcReadLink:
		return MaxResult(proc, 0), MaxPath
	case ProcReadDir:
		var a ReadDirArgs
		a.Decode(&r)
		return MaxResult(proc, a.Count), 0
	case ProcReadDirPlus:
		var a ReadDirPlusArgs
		a.Decode(&r)
		return MaxResult(proc, a.MaxCount), 0
	}
	return MaxResult(proc, 0), 0
}
