package nfs4server

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestWrongTransport checks that a call in clear ends with NFS4ERR_WRONGSEC where it
// would use an export that takes encrypted connections alone, and that a session made
// inside of TLS is of no help on a connection in clear (R9289-4.2-3, R9289-5.1.3-1).
func TestWrongTransport(t *testing.T) {
	fs := mem.New(mem.Options{Size: 1 << 20})
	_, err := fs.Create(context.Background(), &vfs.Cred{}, fs.Root(), "f", vfs.CreateHow{Attr: vfs.SetAttr{Mode: new(uint32(0o666))}})
	require.NoError(t, err)
	inside := newRig(t, exported(t, fs, "/x", "rw,xprtsec=mtls"))
	inside.peer.Security = &oncrpc.Security{Mutual: true}
	inside.connect()
	var dir, file nfs4.HandleRes
	st, _ := inside.do(root(), look("x"), step{nfs4.OpGetFH, &void, &dir})
	require.Equal(t, nfs4.OK, st)
	x := append(nfs4.FH(nil), dir.Object...)
	st, _ = inside.do(root(), look("x"), look("f"), attrs, step{nfs4.OpGetFH, &void, &file})
	require.Equal(t, nfs4.OK, st)
	f := append(nfs4.FH(nil), file.Object...)

	for _, security := range []*oncrpc.Security{nil, {Suite: "TLS_AES_128_GCM_SHA256"}} {
		for _, network := range []string{"tcp", "rdma"} {
			g := inside.on("192.0.2.1:701", network)
			g.peer.Security = security
			g.connectAs(network + " by " + security.String())
			for _, tt := range []struct {
				name  string
				steps []step
				want  nfs4.Status
			}{
				{"the root, which is no export", []step{root(), attrs}, nfs4.OK},
				{"LOOKUP of the export", []step{root(), look("x"), attrs}, nfs4.ErrWrongSec},
				{"PUTFH", []step{put(f), attrs}, nfs4.ErrWrongSec},
				{"LOOKUP in the export", []step{put(x), look("f"), attrs}, nfs4.ErrWrongSec},
				{"OPEN of a name", []step{put(x), opens(nfs4.ClaimNull, "f")}, nfs4.ErrWrongSec},
				{"OPEN of a filehandle", []step{put(f), opens(nfs4.ClaimFH, "")}, nfs4.ErrWrongSec},
				{"SAVEFH, RESTOREFH", []step{put(f), save, root(), restore, attrs}, nfs4.ErrWrongSec},
				{"SECINFO", []step{root(), secInfoOfName("x")}, nfs4.OK},
				{"SECINFO_NO_NAME", []step{put(x), secInfoOfStyle(nfs4.SecInfoCurrentFH)}, nfs4.OK},
			} {
				st, _ := g.do(tt.steps...)
				assert.Equal(t, tt.want, st, "%s by %s, %s", tt.name, network, security.String())
			}
			for op := range operations {
				o := operations[op]
				if _, last, _ := nfs4.Op(op).Minors(); o.do == nil || o.flags&needsCurrent == 0 || o.flags&judges != 0 || last == nfs4.Minor0 {
					continue
				}
				st, _ := g.do(put(f), step{nfs4.Op(op), &void, status()})
				assert.Equal(t, nfs4.ErrWrongSec, st, nfs4.Op(op))
			}
		}
	}
	// The same session on a connection in clear.
	outside := inside.on("192.0.2.1:702", "tcp")
	st, _ = outside.do(put(f), attrs)
	assert.Equal(t, nfs4.ErrWrongSec, st)
}
