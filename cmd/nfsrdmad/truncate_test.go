package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/replay"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A lender serves one file, from mappings of the file if possible.
type lender struct {
	t      *testing.T
	f      *os.File
	addr   string
	served atomic.Int32 // calls
	lent   atomic.Int32 // calls answered from a mapping
}

const lentLen = 16 << 20

// byteAt returns the byte of the file at an offset: never 0.
func byteAt(off int) byte { return byte(off*7+off>>12) | 1 }

func newLender(t *testing.T) *lender {
	t.Helper()
	l := &lender{t: t}
	dir := t.TempDir()
	var err error
	l.f, err = os.Create(filepath.Join(dir, "file"))
	require.NoError(t, err)
	l.fill(0)
	world := look(t)
	fs, err := posix.Open(dir, posix.Options{StateDir: t.TempDir()})
	require.NoError(t, err)
	s, err := nfsserver.New(nfsserver.Config{Exports: []nfsserver.Export{{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true})}}})
	require.NoError(t, err)
	mux := new(oncrpc.Mux)
	s.Register(mux)
	cache := replay.New(mux, replay.Config{Keep: nfsserver.ExecuteOnce})
	listener, err := iwarp.Open(iwarp.Config{CRC: mpa.CRCOff, LongFPDUs: func(mpa.Frame) bool { return true }}).Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.addr = listener.Addr().String()
	responder := &rpcrdma.Server{Handler: service(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
		defer l.served.Add(1)
		answer := cache.Serve(ctx, req, rep)
		if rep.Cut != nil {
			l.lent.Add(1)
		}
		return answer
	})}
	served := make(chan error, 1)
	go func() { served <- responder.Serve(listener) }()
	t.Cleanup(func() {
		assert.NoError(t, responder.Shutdown(context.Background()))
		assert.NoError(t, <-served)
		cache.Close()
		assert.NoError(t, fs.Close())
		world.unchanged(t)
		maps, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		assert.False(t, strings.Contains(string(maps), dir), "mappings are left")
		assert.NoError(t, l.f.Close())
	})
	return l
}

// fill writes the file from an offset to its end.
func (l *lender) fill(from int) {
	p := make([]byte, lentLen-from)
	for i := range p {
		p[i] = byteAt(from + i)
	}
	_, err := l.f.WriteAt(p, int64(from))
	assert.NoError(l.t, err)
}

// client connects to the server, or to a proxy, at an address.
func (l *lender) client(addr string) (*nfsclient.Client, nfs3.FH) {
	l.t.Helper()
	c, err := rpcrdma.DialConn(l.t.Context(), iwarp.Open(iwarp.Config{CRC: mpa.CRCOff}), addr, rpcrdma.ClientConnConfig{})
	require.NoError(l.t, err)
	l.t.Cleanup(func() { assert.NoError(l.t, c.Close()) })
	client, _, file := mount(l.t, c)
	return client, file
}

// check checks the result of a READ into p at off while the file is truncated.
// A short result must come with an end of file. The data must be those of the
// file, or zeros in the page of the truncation.
func check(p []byte, off int, res *nfs3.ReadRes) error {
	const page = 4 << 10
	if len(res.Data) < len(p) && !res.EOF {
		return fmt.Errorf("%d of %d bytes at %d, and no end of file", len(res.Data), len(p), off)
	}
	zero := -1 // the page in which zeros begin
	for i, got := range res.Data {
		at := off + i
		switch {
		case got == 0 && (zero == at/page || at%page != 0):
			zero = at / page
		case got != byteAt(at) || zero == at/page:
			return fmt.Errorf("byte %d of %d is %#02x", i, len(res.Data), got)
		}
	}
	return nil
}

// A valve is a proxy that can stop the bytes from the server.
type valve struct {
	net.Listener
	shut sync.RWMutex
}

func newValve(t *testing.T, server string) *valve {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	v := &valve{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		s, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		defer s.Close()
		go func() {
			_, _ = io.Copy(s, struct{ io.Reader }{c}) // avoids splice through a pipe, which would stay open
			_ = s.(*net.TCPConn).CloseWrite()
		}()
		for p := make([]byte, 64<<10); ; {
			n, err := s.Read(p)
			if err != nil {
				return
			}
			v.shut.RLock()
			_, err = c.Write(p[:n])
			v.shut.RUnlock()
			if err != nil {
				return
			}
		}
	}()
	return v
}

// TestTruncateBehindReads checks that READs whose replies wait for the peer
// complete if the file is truncated meanwhile.
func TestTruncateBehindReads(t *testing.T) {
	l := newLender(t)
	v := newValve(t, l.addr)
	client, file := l.client(v.Addr().String())
	before := l.served.Load()
	v.shut.Lock()
	const n = lentLen >> 20
	var calls sync.WaitGroup
	var got [n]nfs3.ReadRes
	for i := range n {
		calls.Go(func() {
			p := make([]byte, 1<<20)
			var err error
			got[i], err = client.Read(t.Context(), file, uint64(i)<<20, p)
			assert.NoError(t, err)
			assert.NoError(t, check(p, i<<20, &got[i]))
		})
	}
	for l.served.Load() < before+n {
		time.Sleep(time.Millisecond)
	}
	require.EqualValues(t, n, l.lent.Load())
	require.NoError(t, l.f.Truncate(0))
	v.shut.Unlock()
	calls.Wait()
	cut := 0
	for _, res := range got {
		if res.EOF && len(res.Data) < 1<<20 {
			cut++
		}
	}
	assert.Positive(t, cut)
	t.Logf("%d of %d were cut", cut, n)
}

// TestTruncateAnytime checks that truncations at any moment do not end any
// connection.
func TestTruncateAnytime(t *testing.T) {
	l := newLender(t)
	client, file := l.client(l.addr)
	var readers sync.WaitGroup
	var done atomic.Int32
	const each = 40
	for i := range 4 {
		readers.Go(func() {
			defer done.Add(1)
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for range each {
				off := random.IntN(lentLen)
				p := make([]byte, min(random.IntN(1<<20)+1, lentLen-off))
				res, err := client.Read(t.Context(), file, uint64(off), p)
				if !assert.NoError(t, err) || !assert.NoError(t, check(p, off, &res)) {
					return
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(2, 2))
	for done.Load() < 4 {
		n := random.IntN(lentLen)
		require.NoError(t, l.f.Truncate(int64(n)))
		l.fill(n)
	}
	readers.Wait()
	assert.Positive(t, l.lent.Load())
}
