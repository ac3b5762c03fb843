package nfs4server

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// TestReadLent checks that READ and READ_PLUS are served from a mapping of the
// file over a transport that sends data without a copy, and what the reply says if
// the file has become shorter, or cannot be read, before the data is sent.
func TestReadLent(t *testing.T) {
	g := newSharedServer(t)
	put := g.makeFileStep("f")
	whole := strings.Repeat("0123456789abcdef", 16<<10)
	require.NoError(t, os.WriteFile(g.hostPath("f"), []byte(whole), 0o644))
	const off, count = 4096, 128 << 10
	header := rpcmsg.AppendReply(nil, 1, rpcmsg.MsgAccepted) // with a verifier, as by krb5
	header = xdr.AppendOpaque(xdr.AppendUint32(header, rpcmsg.AuthGSS), make([]byte, 37))
	header = xdr.AppendUint32(header, rpcmsg.Success)

	type results struct {
		data string
		eof  bool
	}
	for _, tt := range []struct {
		name string
		op   nfs4.Op
		make func() (res nfs4.Message, get func() results)
	}{
		{"READ", nfs4.OpRead, func() (nfs4.Message, func() results) {
			res := new(nfs4.ReadRes)
			return res, func() results { return results{string(res.Data), res.EOF} }
		}},
		{"READ_PLUS", nfs4.OpReadPlus, func() (nfs4.Message, func() results) {
			res := new(readPlusRes)
			return res, func() results {
				assert.Equal(t, nfs4.ContentData, res.part.What)
				assert.EqualValues(t, off, res.part.Offset)
				return results{string(res.part.Data), res.EOF}
			}
		}},
	} {
		for _, end := range []struct {
			name   string
			n      int
			err    error
			status nfs4.Status
			eof    bool
		}{
			{"whole", count, nil, nfs4.OK, false},
			{"shorter", 1234, nil, nfs4.OK, true},
			{"shorter by an error", 1233, unix.EIO, nfs4.OK, false},
			{"nothing", 0, nil, nfs4.OK, true},
			{"an error", 0, unix.EIO, nfs4.ErrIO, false},
		} {
			t.Run(tt.name+"/"+end.name, func(t *testing.T) {
				res, get := tt.make()
				steps := []step{put.withNewResults(), {tt.op, &nfs4.ReadArgs{Offset: off, Count: count}, res}}
				rep := oncrpc.Reply{Mappable: true, Head: bytes.Clone(header)}
				g.serveCompound(&rep, 1<<20, nil, steps...)
				require.NotNil(t, rep.Cut, "lent")
				if end.name != "whole" {
					rep.Head = rep.Cut(rep.Head, end.n, end.err)
					rep.Item.B = rep.Item.B[:end.n]
				}
				all := bytes.Clone(rep.Head)
				for _, part := range rep.AppendBody(nil) {
					all = append(all, part...)
				}
				assert.Len(t, all, rep.Len())
				rep.DropItem()
				g.checkResults(all[len(header):], end.status, steps)
				if end.status == nfs4.OK {
					assert.Equal(t, results{whole[off:][:end.n], end.eof}, get())
				}
			})
		}
	}
}
