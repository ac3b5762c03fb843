package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/nfs4client"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4server"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/replay"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A fileServer serves one file, from mappings of the file if possible.
type fileServer struct {
	t         *testing.T
	f         *os.File
	addr      string // RDMA address
	tcp       string // TCP address
	tcpServer *oncrpc.Server
	served    atomic.Int32 // calls
	lent      atomic.Int32 // calls answered from a mapping
}

const lentLen = 16 << 20

// byteAt returns the byte of the file at an offset: never 0.
func byteAt(off int) byte { return byte(off*7+off>>12) | 1 }

func newFileServer(t *testing.T) *fileServer {
	t.Helper()
	l := &fileServer{t: t}
	dir := t.TempDir()
	var err error
	l.f, err = os.Create(filepath.Join(dir, "file"))
	require.NoError(t, err)
	l.writeFrom(0)
	world := countResources(t)
	fs, err := posix.Open(dir, posix.Options{StateDir: t.TempDir()})
	require.NoError(t, err)
	r, err := exportset.New(exportset.Config{Exports: []exportset.Export{{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true})}}})
	require.NoError(t, err)
	mux := new(oncrpc.Mux)
	nfsserver.NewForSet(r).Register(mux)
	begin := time.Now()
	state := nfs4state.New(nfs4server.WithFiles(nfs4state.Config{Now: func() time.Duration { return time.Since(begin) }, Epoch: 7, Lease: time.Minute}))
	four := nfs4server.New(nfs4server.Config{Exports: r, State: state, Lease: time.Minute})
	four.Register(mux)
	cache := replay.New(mux, replay.Config{Keep: func(p rpcmsg.Procedure, msg []byte) bool { return nfsserver.ExecuteOnce(p, msg) || nfs4.Once(msg) }})
	listener, err := iwarp.Open(iwarp.Config{CRC: mpa.CRCOff, LongFPDUs: func(mpa.Frame) bool { return true }}).Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.addr = listener.Addr().String()
	handler := serviceFunc(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
		defer l.served.Add(1)
		answer := cache.Serve(ctx, req, rep)
		if rep.Cut != nil {
			l.lent.Add(1)
		}
		return answer
	})
	responder := &rpcrdma.Server{Handler: handler}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.tcp = plain.Addr().String()
	l.tcpServer = &oncrpc.Server{Handler: handler}
	served := make(chan error, 2)
	go func() { served <- responder.Serve(listener) }()
	go func() { served <- l.tcpServer.Serve(plain) }()
	t.Cleanup(func() {
		assert.NoError(t, responder.Shutdown(context.Background()))
		assert.NoError(t, l.tcpServer.Shutdown(context.Background()))
		assert.NoError(t, <-served)
		assert.NoError(t, <-served)
		assert.Zero(t, l.tcpServer.Stats().Replies.InUse, "memory of replies over TCP")
		cache.Close()
		four.Close()
		assert.NoError(t, fs.Close())
		world.assertReleased(t)
		maps, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		assert.False(t, strings.Contains(string(maps), dir), "mappings are left")
		assert.NoError(t, l.f.Close())
	})
	return l
}

// writeFrom writes the file from an offset to its end.
func (l *fileServer) writeFrom(from int) {
	p := make([]byte, lentLen-from)
	for i := range p {
		p[i] = byteAt(from + i)
	}
	_, err := l.f.WriteAt(p, int64(from))
	assert.NoError(l.t, err)
}

// dialRDMAClient connects to the server, or to a proxy, at an address.
func (l *fileServer) dialRDMAClient(addr string) (*nfsclient.Client, nfs3.FH) {
	l.t.Helper()
	c, err := rpcrdma.DialConn(l.t.Context(), iwarp.Open(iwarp.Config{CRC: mpa.CRCOff}), addr, rpcrdma.ClientConnConfig{})
	require.NoError(l.t, err)
	l.t.Cleanup(func() { assert.NoError(l.t, c.Close()) })
	client, _, file := mountFile(l.t, c)
	return client, file
}

// dialTCPLine connects to the server, or to a proxy, over TCP, and again if the connection ends.
func (l *fileServer) dialTCPLine(addr string) *oncrpc.Line {
	l.t.Helper()
	c, err := oncrpc.DialTCPLine(l.t.Context(), addr, oncrpc.TCPLineConfig{})
	require.NoError(l.t, err)
	l.t.Cleanup(func() { assert.NoError(l.t, c.Close()) })
	return c
}

// A readFunc makes one READ of the file into p.
type readFunc func(p []byte, off int) (data []byte, eof bool, err error)

// dialReaders are the versions by which a lender's file is read over TCP.
var dialReaders = map[string]func(l *fileServer, addr string) readFunc{
	"3": func(l *fileServer, addr string) readFunc {
		client, _, file := mountFile(l.t, l.dialTCPLine(addr))
		return func(p []byte, off int) ([]byte, bool, error) {
			res, err := client.Read(l.t.Context(), file, uint64(off), p)
			return res.Data, res.EOF, err
		}
	},
	"4.0": func(l *fileServer, addr string) readFunc {
		c := l.dialTCPLine(addr)
		var none nfs4.Void
		var fh nfs4.HandleRes
		root := func(b []byte) []byte {
			b = nfs4.AppendOp(b, nfs4.OpPutRootFH, &none)
			b = nfs4.AppendOp(b, nfs4.OpLookup, &nfs4.NameArgs{Name: []byte("x")})
			b = nfs4.AppendOp(b, nfs4.OpLookup, &nfs4.NameArgs{Name: []byte("file")})
			return nfs4.AppendOp(b, nfs4.OpGetFH, &none)
		}
		require.NoError(l.t, callCompound40(l.t.Context(), c, 4, root, func(x *xdr.Reader) {
			fh.Decode(x)
			fh.Object = bytes.Clone(fh.Object)
		}))
		return func(p []byte, off int) (data []byte, eof bool, err error) {
			err = callCompound40(l.t.Context(), c, 2, func(b []byte) []byte {
				b = nfs4.AppendOp(b, nfs4.OpPutFH, &nfs4.HandleArgs{Object: fh.Object})
				return nfs4.AppendOp(b, nfs4.OpRead, &nfs4.ReadArgs{StateID: nfs4.AnonymousStateID, Offset: uint64(off), Count: uint32(len(p))})
			}, func(x *xdr.Reader) {
				var res nfs4.ReadRes
				res.Decode(x)
				data, eof = p[:copy(p, res.Data)], res.EOF
			})
			return data, eof, err
		}
	},
	"4.2": func(l *fileServer, addr string) readFunc {
		s, err := nfs4client.Dial(l.t.Context(), nfs4client.Config{
			Network: "tcp", Minor: nfs4.Minor2, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, Log: slog.New(slog.DiscardHandler),
			Dial: func(ctx context.Context) (nfs4client.Conn, error) {
				return oncrpc.DialTCP(ctx, addr, oncrpc.ClientConfig{})
			},
		})
		require.NoError(l.t, err)
		l.t.Cleanup(func() { assert.NoError(l.t, s.Close(context.Background())) })
		var c nfs4client.Compound
		var dir nfs4.HandleRes
		c.PutRootFH()
		c.Lookup("x")
		c.GetFH(&dir)
		require.NoError(l.t, s.Do(l.t.Context(), &c))
		fh := bytes.Clone(dir.Object)
		c.Reset()
		f, err := s.Open(l.t.Context(), fh, "file", nfs4client.OpenFlags{Read: true})
		require.NoError(l.t, err)
		l.t.Cleanup(func() { assert.NoError(l.t, f.Close(context.Background())) })
		return func(p []byte, off int) ([]byte, bool, error) {
			n, err := f.ReadAt(l.t.Context(), p, uint64(off))
			if err == io.EOF {
				return p[:n], true, nil
			}
			return p[:n], false, err
		}
	},
}

// callCompound40 sends a version 4.0 COMPOUND with n operations, and reads the results
// of the last one.
func callCompound40(ctx context.Context, c oncrpc.Caller, n uint32, ops func(b []byte) []byte, read func(x *xdr.Reader)) error {
	head := nfs4.CompoundArgs{N: n}
	x := &oncrpc.Exchange{
		Prog: nfs4.Program, Vers: nfs4.Version, Proc: nfs4.ProcCompound, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys},
		Args: ops(head.AppendTo(nil)), MaxResults: 1<<20 + 4<<10,
	}
	if err := c.Call(ctx, x); err != nil {
		return err
	}
	defer x.Release()
	r := &x.Results
	var res nfs4.CompoundRes
	if res.Decode(r); res.Status != nfs4.OK || res.N != n {
		return fmt.Errorf("%w after %d operations", res.Status, res.N)
	}
	for range n - 1 {
		_ = r.Uint64() // each is a number and a status
	}
	_ = r.Uint32()
	read(r)
	return r.Done()
}

// checkTruncatedRead checks the result of a READ into p at off while the file is truncated.
// A short result must come with an end of file. The data must be those of the
// file, or zeros in the page of the truncation.
func checkTruncatedRead(p []byte, off int, data []byte, eof bool) error {
	const page = 4 << 10
	if len(data) < len(p) && !eof {
		return fmt.Errorf("%d of %d bytes at %d, and no end of file", len(data), len(p), off)
	}
	zero := -1 // the page in which zeros begin
	for i, got := range data {
		at := off + i
		switch {
		case got == 0 && (zero == at/page || at%page != 0):
			zero = at / page
		case got != byteAt(at) || zero == at/page:
			return fmt.Errorf("byte %d of %d is %#02x", i, len(data), got)
		}
	}
	return nil
}

// A pausableProxy is a proxy that can stop the bytes from the server.
type pausableProxy struct {
	net.Listener
	paused sync.RWMutex
}

func newPausableProxy(t *testing.T, server string) *pausableProxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	v := &pausableProxy{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go v.relayConn(c, server)
		}
	}()
	return v
}

// relayConn passes on a connection to the server.
func (v *pausableProxy) relayConn(c net.Conn, server string) {
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
		v.paused.RLock()
		_, err = c.Write(p[:n])
		v.paused.RUnlock()
		if err != nil {
			return
		}
	}
}

// TestTruncateBehindReads checks that READs whose replies wait for the peer
// complete if the file is truncated concurrently.
func TestTruncateBehindReads(t *testing.T) {
	l := newFileServer(t)
	v := newPausableProxy(t, l.addr)
	client, file := l.dialRDMAClient(v.Addr().String())
	before := l.served.Load()
	v.paused.Lock()
	const n = lentLen >> 20
	var calls sync.WaitGroup
	var got [n]nfs3.ReadRes
	for i := range n {
		calls.Go(func() {
			p := make([]byte, 1<<20)
			var err error
			got[i], err = client.Read(t.Context(), file, uint64(i)<<20, p)
			assert.NoError(t, err)
			assert.NoError(t, checkTruncatedRead(p, i<<20, got[i].Data, got[i].EOF))
		})
	}
	for l.served.Load() < before+n {
		time.Sleep(time.Millisecond)
	}
	require.EqualValues(t, n, l.lent.Load())
	require.NoError(t, l.f.Truncate(0))
	v.paused.Unlock()
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
	l := newFileServer(t)
	client, file := l.dialRDMAClient(l.addr)
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
				if !assert.NoError(t, err) || !assert.NoError(t, checkTruncatedRead(p, off, res.Data, res.EOF)) {
					return
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(2, 2))
	for done.Load() < 4 {
		n := random.IntN(lentLen)
		require.NoError(t, l.f.Truncate(int64(n)))
		l.writeFrom(n)
	}
	readers.Wait()
	assert.Positive(t, l.lent.Load())
}

// TestTruncateBehindTCP is TestTruncateBehindReads over TCP, where the reply that has begun to
// leave cannot be completed: its connection ends, and the calls are made again.
func TestTruncateBehindTCP(t *testing.T) {
	for version, dial := range dialReaders {
		t.Run(version, func(t *testing.T) {
			l := newFileServer(t)
			v := newPausableProxy(t, l.tcp)
			read := dial(l, v.Addr().String())
			before := l.served.Load()
			v.paused.Lock()
			const n = lentLen >> 20
			var calls sync.WaitGroup
			var short atomic.Int32
			for i := range n {
				calls.Go(func() {
					p := make([]byte, 1<<20)
					data, eof, err := read(p, i<<20)
					assert.NoError(t, err)
					assert.NoError(t, checkTruncatedRead(p, i<<20, data, eof))
					if len(data) < len(p) {
						short.Add(1)
					}
				})
			}
			for l.served.Load() < before+n {
				time.Sleep(time.Millisecond)
			}
			require.EqualValues(t, n, l.lent.Load())
			assert.Zero(t, l.tcpServer.Stats().Replies.InUse, "a mapping is no memory")
			require.NoError(t, l.f.Truncate(0))
			v.paused.Unlock()
			calls.Wait()
			assert.Positive(t, short.Load())
			t.Logf("%d of %d were cut, over %d connections", short.Load(), n, l.tcpServer.Stats().Total)
		})
	}
}

// TestTruncateTCP checks that each READ over TCP has a result that a READ may have,
// while others truncate and write the file at any moment.
func TestTruncateTCP(t *testing.T) {
	l := newFileServer(t)
	var readers sync.WaitGroup
	var done atomic.Int32
	const each = 150
	for version, dial := range dialReaders {
		read := dial(l, l.tcp)
		for i := range 2 {
			readers.Go(func() {
				defer done.Add(1)
				random := rand.New(rand.NewPCG(1, uint64(i)))
				for range each {
					off := random.IntN(lentLen)
					p := make([]byte, min(random.IntN(1<<20)+1, lentLen-off))
					data, eof, err := read(p, off)
					if !assert.NoError(t, err, version) || !assert.NoError(t, checkTruncatedRead(p, off, data, eof), version) {
						return
					}
				}
			})
		}
	}
	random := rand.New(rand.NewPCG(2, 2))
	for int(done.Load()) < 2*len(dialReaders) {
		n := random.IntN(lentLen)
		require.NoError(t, l.f.Truncate(int64(n)))
		l.writeFrom(n)
	}
	readers.Wait()
	assert.Positive(t, l.lent.Load())
	t.Logf("%d of %d calls were answered from a mapping, over %d connections", l.lent.Load(), l.served.Load(), l.tcpServer.Stats().Total)
}
