package nfs4

import "github.com/nfsrdma/nfsrdma/oncrpc/xdr"

// OpenArguments is the attribute open_arguments (RFC 9754): the arguments of OPEN that a server
// supports in a file system.
type OpenArguments struct {
	ShareAccess     Bitmap // of OpenArgRead, OpenArgWrite and OpenArgBoth
	ShareDeny       Bitmap // likewise, and of OpenArgNone
	ShareAccessWant Bitmap // of the OpenArgWant values
	OpenClaim       Bitmap // of Claims
	CreateMode      Bitmap // of CreateModes
}

// An OpenArg is a number in a bitmap of OpenArguments.
type OpenArg uint8

// The numbers of share_access and share_deny.
const (
	OpenArgNone OpenArg = iota
	OpenArgRead
	OpenArgWrite
	OpenArgBoth
)

// The numbers of the wanted delegations in share_access.
const (
	OpenArgWantAnyDeleg          OpenArg = 3
	OpenArgWantNoDeleg           OpenArg = 4
	OpenArgWantCancel            OpenArg = 5
	OpenArgWantSignalAvail       OpenArg = 17
	OpenArgWantPushDeleg         OpenArg = 18
	OpenArgWantDelegTimestamps   OpenArg = 20
	OpenArgWantOpenXorDelegation OpenArg = 21
)

// AppendTo appends a's wire form to b.
func (a *OpenArguments) AppendTo(b []byte) []byte {
	b = a.ShareAccessWant.AppendTo(a.ShareDeny.AppendTo(a.ShareAccess.AppendTo(b)))
	return a.CreateMode.AppendTo(a.OpenClaim.AppendTo(b))
}

// Decode reads a.
func (a *OpenArguments) Decode(r *xdr.Reader) {
	a.ShareAccess.Decode(r)
	a.ShareDeny.Decode(r)
	a.ShareAccessWant.Decode(r)
	a.OpenClaim.Decode(r)
	a.CreateMode.Decode(r)
}
