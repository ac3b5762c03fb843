package main

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A silentFS is a file system whose GetAttr waits until hang is closed.
type silentFS struct {
	*mem.FS
	hang chan struct{}
}

func (f *silentFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	<-f.hang
	return f.FS.GetAttr(ctx, c, h)
}

// TestLocateWhileExportHangs checks that an export that hangs delays a trace once, that the objects
// of other exports are found meanwhile, and its own when it responds.
func TestLocateWhileExportHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := &silentFS{mem.New(mem.Options{}), make(chan struct{})}
		set, err := exportset.New(exportset.Config{Exports: []exportset.Export{{Path: "/hung", FS: hung}, {Path: "/well", FS: mem.New(mem.Options{})}}})
		require.NoError(t, err)
		where, start := newObjectLocator(set), time.Now()
		locate := func(i int) (c report.TracedCall) {
			e := set.Snapshot().List()[i]
			root := e.FS.Root()
			where.locate(t.Context(), &c, set.AppendHandle(nil, e, &root))
			assert.Equal(t, e.Path, c.Export)
			return c
		}
		for range 3 {
			assert.Zero(t, locate(0).FileID)
			assert.NotZero(t, locate(1).FileID)
		}
		assert.Equal(t, locateTimeout, time.Since(start))
		close(hung.hang)
		synctest.Wait()
		assert.NotZero(t, locate(0).FileID)
	})
}

// A connListener accepts the connections in a channel until that is closed.
type connListener chan net.Conn

func (l connListener) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l connListener) Close() error   { return nil }
func (l connListener) Addr() net.Addr { return &net.UnixAddr{} }

// TestCallTraceEnds checks that a trace without calls lasts, and that it ends when its command
// disconnects, or is stopped and takes no line.
func TestCallTraceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &runningDaemon{server: new(nfsrdma.Server)}
		m, l := http.NewServeMux(), make(connListener)
		m.HandleFunc("GET /trace", p.serveCallTrace)
		server := newHTTPServer(m, slog.New(slog.DiscardHandler))
		go func() { _ = server.Serve(l) }()
		defer server.Close()
		defer close(l)
		start := func() net.Conn {
			c, peer := net.Pipe()
			l <- peer
			_, err := io.WriteString(c, "GET /trace HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, err)
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			time.Sleep(time.Hour)
			synctest.Wait()
			require.Len(t, p.callTraces.readers(), 1)
			return c
		}
		start().Close()
		synctest.Wait()
		assert.Empty(t, p.callTraces.readers(), "it has disconnected")

		c := start()
		defer c.Close()
		p.callTraces.readers()[0].offer(new(tracedCall), time.Now())
		time.Sleep(callTraceWrite)
		synctest.Wait()
		assert.Empty(t, p.callTraces.readers(), "it is stopped")
	})
}
