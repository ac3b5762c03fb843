package nfsrdma

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A traceCount is a Service that counts calls, and those with a Trace.
type traceCount struct {
	oncrpc.Service
	calls, followed *atomic.Int64
}

// Serve serves a call (oncrpc.Service).
func (c traceCount) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	c.calls.Add(1)
	if rep.Trace != nil {
		c.followed.Add(1)
	}
	return c.Service.Serve(ctx, req, rep)
}

// noTrace is a Trace that records nothing.
type noTrace struct{}

func (noTrace) Begin(oncrpc.Stage)               {}
func (noTrace) End(oncrpc.Stage, string, string) {}
func (noTrace) Done()                            {}

// TestTraceCost checks that a server without ServerConfig.Trace traces no call and allocates
// no memory for one, and that a server with it traces each call.
func TestTraceCost(t *testing.T) {
	for name, trace := range map[string]func() oncrpc.Trace{"without": nil, "with": func() oncrpc.Trace { return noTrace{} }} {
		t.Run(name, func(t *testing.T) {
			var calls, followed atomic.Int64
			r := startServer(t, ServerConfig{
				Exports: []nfsserver.Export{{Path: "/x", FS: mem.New(mem.Options{})}}, Trace: trace,
				Wrap: func(next oncrpc.Service) oncrpc.Service { return traceCount{next, &calls, &followed} },
			})
			c, err := oncrpc.DialTCP(t.Context(), r.tcp, oncrpc.ClientConfig{})
			require.NoError(t, err)
			root, err := nfsclient.NewMount(c, new(nfsclient.ProcessCred())).Mnt(t.Context(), "/x")
			require.NoError(t, err)
			require.NoError(t, c.Close())

			nc, err := net.Dial("tcp", r.tcp)
			require.NoError(t, err)
			defer nc.Close()
			var call []byte
			for _, word := range []uint32{0, 7, rpcmsg.MsgCall, rpcmsg.Version, nfs3.Program, nfs3.Version, nfs3.ProcGetAttr, rpcmsg.AuthNone, 0, rpcmsg.AuthNone, 0} {
				call = xdr.AppendUint32(call, word)
			}
			call = (&nfs3.HandleArgs{Object: root}).AppendTo(call)
			binary.BigEndian.PutUint32(call, 1<<31|uint32(len(call)-4)) // one fragment
			reply := make([]byte, 4+24+4+84)
			cost := testing.AllocsPerRun(500, func() {
				if _, err := nc.Write(call); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(nc, reply); err != nil {
					t.Fatal(err)
				}
			})
			assert.Zero(t, binary.BigEndian.Uint32(reply[28:]), "NFS3_OK")
			assert.GreaterOrEqual(t, calls.Load(), int64(500))
			if trace == nil {
				assert.LessOrEqual(t, cost, racetest.PoolLosses(4))
				assert.Zero(t, followed.Load())
			} else {
				assert.Equal(t, calls.Load(), followed.Load())
			}
		})
	}
}
