package main

import (
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// Maximum lengths in bytes of what a traced call copies from its message.
const (
	maxTracedHandle = 128 // NFS4_FHSIZE
	maxTracedName   = 256
	maxTracedCred   = 400 // of a credential or verifier, which are skipped
)

// parseObject returns the file handle in a call's arguments, and the name below it, as far as it
// has them. The message is unchecked, and the slices are parts of it.
func parseObject(p rpcmsg.Procedure, msg []byte) (fh, name []byte) {
	r := xdr.NewReader(msg)
	r.Fixed(6 * 4)
	for range 2 { // credential and verifier
		r.Uint32()
		r.Opaque(maxTracedCred)
	}
	switch p.Prog {
	case nfs3.Program:
		if p.Vers == nfs4.Version {
			fh, name = parseCompoundObject(&r)
			break
		}
		if fh = r.Opaque(maxTracedHandle); hasNFS3Name[p.Proc] {
			name = r.Opaque(maxTracedName)
		}
	case nfsacl.Program:
		fh = r.Opaque(maxTracedHandle)
	case mount3.Program:
		if p.Proc == mount3.ProcMnt || p.Proc == mount3.ProcUmnt {
			name = r.Opaque(4 * maxTracedName)
		}
	case nlm4.Program:
		fh = parseLockObject(p.Proc, &r)
	}
	if r.Err() != nil {
		return nil, nil
	}
	return fh, name
}

// hasNFS3Name has the NFSv3 procedures whose arguments begin with a directory and a name in it.
var hasNFS3Name = map[uint32]bool{
	nfs3.ProcLookup: true, nfs3.ProcCreate: true, nfs3.ProcMkdir: true, nfs3.ProcSymlink: true, nfs3.ProcMknod: true,
	nfs3.ProcRemove: true, nfs3.ProcRmdir: true, nfs3.ProcRename: true,
}

// parseLockObject returns the file handle of a call to a lock manager.
func parseLockObject(proc uint32, r *xdr.Reader) []byte {
	r.Opaque(maxTracedName) // cookie
	switch proc {
	case nlm4.ProcTest, nlm4.ProcTestMsg:
		r.Uint32() // exclusive
	case nlm4.ProcLock, nlm4.ProcLockMsg, nlm4.ProcCancel, nlm4.ProcCancelMsg:
		r.Uint32() // block
		r.Uint32() // exclusive
	case nlm4.ProcUnlock, nlm4.ProcUnlockMsg:
	default:
		return nil
	}
	r.Opaque(4 * maxTracedName) // caller_name
	return r.Opaque(maxTracedHandle)
}

// parseCompoundObject returns the first filehandle of a COMPOUND, and the name in the operation
// that follows it.
func parseCompoundObject(r *xdr.Reader) (fh, name []byte) {
	var head nfs4.CompoundArgs
	head.Decode(r)
	for range min(head.N, 8) {
		switch nfs4.Op(r.Uint32()) {
		case nfs4.OpSequence:
			var a nfs4.SequenceArgs
			a.Decode(r)
		case nfs4.OpPutRootFH, nfs4.OpPutPubFH, nfs4.OpSaveFH, nfs4.OpRestoreFH:
		case nfs4.OpPutFH:
			fh = r.Opaque(maxTracedHandle)
		case nfs4.OpLookup, nfs4.OpRemove:
			return fh, r.Opaque(maxTracedName)
		case nfs4.OpOpen:
			var a nfs4.OpenArgs
			a.Decode(r)
			return fh, a.Name[:min(len(a.Name), maxTracedName)]
		default:
			return fh, nil
		}
		if r.Err() != nil {
			return nil, nil
		}
	}
	return fh, nil
}
