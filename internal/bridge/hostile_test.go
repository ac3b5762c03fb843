package bridge

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// TestHostile checks that malicious input costs the client its connection, or
// an error, and has no effect on others. Only calls reach the server.
func TestHostile(t *testing.T) {
	var s *recordingService
	g := newTestBridge(t, bridgeOptions{service: func(next oncrpc.Service) oncrpc.Service { s = &recordingService{Service: next}; return s }})
	root := g.exportHandle()
	null := encodeCall(5, nfs3.Program, 3, nfs3.ProcNull, nil)
	good := dialRaw(t, g.addr)
	fine := func() {
		good.sendMessage(null)
		good.readReply()
	}
	fine()
	s.takeCalls()

	for name, stream := range map[string][]byte{
		"a record too long":         binary.BigEndian.AppendUint32(nil, 1<<31|(MaxRecord+1)),
		"the longest mark":          {0xff, 0xff, 0xff, 0xff},
		"fragments too long":        append(binary.BigEndian.AppendUint32(nil, 1000), append(make([]byte, 1000), 0x7f, 0xff, 0xff, 0xff)...),
		"another protocol":          []byte("GET / HTTP/1.1\r\nHost: bridge\r\n\r\n"),
		"half of a mark":            {0x80},
		"half of a record":          encodeRecord(null)[:20],
		"half of a large record":    append(binary.BigEndian.AppendUint32(nil, 1<<31|1<<20), make([]byte, 100000)...),
		"half of a second fragment": append(binary.BigEndian.AppendUint32(nil, 4), 0, 0, 0, 1, 0x80, 0, 1, 0, 7),
	} {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, g.addr)
			_, err := c.Write(stream)
			require.NoError(t, err)
			if strings.HasPrefix(name, "half") {
				require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
			}
			c.assertClosed()
			fine()
		})
	}
	s.takeCalls()

	t.Run("no calls", func(t *testing.T) {
		c := dialRaw(t, g.addr)
		reply := oncrpc.AppendSystemErr(nil, 5)
		c.sendMessage(reply)
		c.sendMessage(nil)
		c.sendMessage([]byte{1, 2, 3})
		c.sendMessage(null[:8])
		c.sendMessage(randomBytes(1<<20, 4))
		c.sendMessage(null)
		assert.Len(t, c.readReply(), 24, "to the call")
		assert.Len(t, s.takeCalls(), 1)
	})

	write := func(length uint32) []byte {
		args := (&nfs3.WriteArgs{File: root}).AppendTo(nil)
		binary.BigEndian.PutUint32(args[len(args)-4:], length)
		return append(args, randomBytes(5000, 3)...)
	}
	for name, msg := range map[string][]byte{
		"WRITE of more than it has": encodeCall(6, nfs3.Program, 3, nfs3.ProcWrite, write(math.MaxUint32)),
		"WRITE of less than it has": encodeCall(6, nfs3.Program, 3, nfs3.ProcWrite, write(8)),
		"WRITE with a wrong length": encodeCall(6, nfs3.Program, 3, nfs3.ProcWrite, write(5000)),
		"READ of 4 GiB":             encodeCall(6, nfs3.Program, 3, nfs3.ProcRead, (&nfs3.ReadArgs{File: root, Count: math.MaxUint32}).AppendTo(nil)),
		"READDIRPLUS of 4 GiB":      encodeCall(6, nfs3.Program, 3, nfs3.ProcReadDirPlus, (&nfs3.ReadDirPlusArgs{Dir: root, DirCount: math.MaxUint32, MaxCount: math.MaxUint32}).AppendTo(nil)),
		"a handle of 4 GiB":         encodeCall(6, nfs3.Program, 3, nfs3.ProcGetAttr, xdr.AppendUint32(nil, math.MaxUint32)),
		"the longest call":          encodeCall(6, nfs3.Program, 3, nfs3.ProcLookup, make([]byte, MaxRecord-100)),
		"an unknown program":        encodeCall(6, 0, 0, 0, randomBytes(200000, 5)),
		"a call without a seal":     withGSSCred(encodeCall(6, nfs3.Program, 3, nfs3.ProcReadDir, nil)),
	} {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, g.addr)
			c.sendMessage(msg)
			r := xdr.NewReader(c.readReply())
			assert.EqualValues(t, 6, r.Uint32())
			assert.EqualValues(t, 1, r.Uint32(), "a reply")
			fine()
		})
	}
}

// TestDeafClient checks that a client that does not read its replies holds at most
// the memory for a client's permitted calls, and that others continue.
func TestDeafClient(t *testing.T) {
	g := newTestBridge(t, bridgeOptions{})
	const size = 1 << 20
	require.NoError(t, os.WriteFile(filepath.Join(g.dir, "file"), randomBytes(size, 1), 0o644))
	f := mountOverTCP(t, g.addr)
	n, err := f.Stat(t.Context(), "file")
	require.NoError(t, err)
	msg := encodeCall(1, nfs3.Program, 3, nfs3.ProcRead, (&nfs3.ReadArgs{File: n.Handle, Count: size}).AppendTo(nil))
	deaf := dialRaw(t, g.addr)
	for range 300 {
		deaf.sendMessage(msg)
	}
	other := dialRaw(t, g.addr)
	for range 10 {
		other.sendMessage(msg)
		assert.Len(t, other.readReply(), 24+nfs3.ReadHeadLen+size)
	}
	deaf.Close()
}

// TestFairness checks that clients with the largest number of slow calls do not
// keep others from their calls.
func TestFairness(t *testing.T) {
	const slow, credits = 400000, 64
	entered, release := make(chan struct{}, 1000), make(chan struct{})
	g := newTestBridge(t, bridgeOptions{credits: credits, service: func(next oncrpc.Service) oncrpc.Service {
		return serviceFunc(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
			if c, ok := oncrpc.ParseCall(req.Msg); ok && c.Prog == slow {
				entered <- struct{}{}
				<-release
			}
			return next.Serve(ctx, req, rep)
		})
	}})
	other := dialFrom(t, "127.0.0.99", g.addr)
	var greedy []rawConn
	for i, most := range []int{48, 12, 3, 1} { // three quarters of the rest
		c := dialFrom(t, fmt.Sprintf("127.0.0.%d", 2+i), g.addr)
		greedy = append(greedy, c)
		for i := range uint32(credits) {
			c.sendMessage(encodeCall(i, slow, 1, 1, nil))
		}
		for range most {
			<-entered
		}
		assert.Empty(t, entered)
		if most > 1 {
			other.sendMessage(encodeCall(9, nfs3.Program, 3, nfs3.ProcNull, nil))
			assert.Len(t, other.readReply(), 24)
		}
	}
	close(release)
	for _, c := range greedy {
		for range credits {
			c.readReply()
		}
	}
}

// serviceFunc is a function as an oncrpc.Service.
type serviceFunc func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool

func (s serviceFunc) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	return s(ctx, req, rep)
}

// TestOneFragment checks that long data and long listings are one fragment
// each, as some clients require.
func TestOneFragment(t *testing.T) {
	g := newTestBridge(t, bridgeOptions{})
	require.NoError(t, os.WriteFile(filepath.Join(g.dir, "file"), randomBytes(1<<20, 1), 0o644))
	for i := range 1000 {
		require.NoError(t, os.WriteFile(filepath.Join(g.dir, fmt.Sprintf("%0100d", i)), nil, 0o644))
	}
	f := mountOverTCP(t, g.addr)
	n, err := f.Stat(t.Context(), "file")
	require.NoError(t, err)
	c := dialRaw(t, g.addr)
	c.sendMessage(encodeCall(1, nfs3.Program, 3, nfs3.ProcRead, (&nfs3.ReadArgs{File: n.Handle, Count: 1 << 20}).AppendTo(nil)))
	assert.Greater(t, len(c.readReply()), 1<<20)
	plus := nfs3.ReadDirPlusArgs{Dir: g.exportHandle(), DirCount: 1 << 20, MaxCount: 1 << 20}
	c.sendMessage(encodeCall(2, nfs3.Program, 3, nfs3.ProcReadDirPlus, plus.AppendTo(nil)))
	assert.Greater(t, len(c.readReply()), 100000)
}
