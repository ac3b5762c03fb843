package nfs3

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// MaxResult returns the maximum length of procedure proc's results in bytes,
// including the data item, so that a client can provide memory for them in
// advance (RFC 8267, Section 4.1). count is the client's limit: count in READ
// and READDIR, maxcount in READDIRPLUS, the maximum path length in READLINK.
// Other procedures ignore count.
func MaxResult(proc, count uint32) int {
	n := int(count)
	switch proc {
	case ProcNull:
		return 0
	case ProcGetAttr:
		return statusLen + attrLen
	case ProcSetAttr, ProcRemove, ProcRmdir:
		return statusLen + wccLen
	case ProcLookup:
		return statusLen + handleLen + 2*postAttrLen
	case ProcAccess:
		return statusLen + postAttrLen + 4
	case ProcReadLink:
		return statusLen + postAttrLen + 4 + n + xdr.Pad(n)
	case ProcRead:
		return ReadHeadLen + n + xdr.Pad(n)
	case ProcWrite:
		return statusLen + wccLen + 4 + 4 + 8
	case ProcCreate, ProcMkdir, ProcSymlink, ProcMknod:
		return statusLen + postFHLen + postAttrLen + wccLen
	case ProcRename:
		return statusLen + 2*wccLen
	case ProcLink:
		return statusLen + postAttrLen + wccLen
	case ProcReadDir, ProcReadDirPlus:
		// The failing arm does not depend on count.
		return statusLen + max(n, postAttrLen)
	case ProcFSStat:
		return statusLen + postAttrLen + 6*8 + 4
	case ProcFSInfo:
		return statusLen + postAttrLen + 7*4 + 8 + 8 + 4
	case ProcPathConf:
		return statusLen + postAttrLen + 2*4 + 4*4
	case ProcCommit:
		return statusLen + wccLen + 8
	}
	return 0
}
