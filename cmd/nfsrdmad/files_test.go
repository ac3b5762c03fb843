package main

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
)

// TestWarnOfFiles checks at which limit of open files a daemon says that it is too
// low.
func TestWarnOfFiles(t *testing.T) {
	for _, tt := range []struct {
		conns int
		tcp   string
		limit uint64
		want  string
	}{
		{1024, ":2049", 10240, ""},
		{1024, ":2049", 10239, "limit=10239 connections=5120 enough=10240"},
		{9000, "", 18000, ""},
		{9000, "", 17999, "limit=17999 connections=9000 enough=18000"},
		{maxConns, ":2049", unix.RLIM_INFINITY, ""},
	} {
		var text strings.Builder
		o := &serveOptions{maxConns: tt.conns, tcp: tt.tcp}
		o.warnAboutFileLimit(func() (uint64, error) { return tt.limit, nil }, slog.New(slog.NewTextHandler(&text, nil)))
		if tt.want == "" {
			assert.Empty(t, text.String())
			continue
		}
		assert.Contains(t, text.String(), tt.want)
		assert.Contains(t, text.String(), "or lower --max-connections")
	}
}

// TestMaxConnections checks that the daemon takes as many connections as it is
// told: the last eighth is for other parties, and a further one replaces the
// oldest.
func TestMaxConnections(t *testing.T) {
	const limit = 16
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "", "--max-connections=16", t.TempDir())
	device := iwarp.Open(iwarp.Config{})
	var first replyHandler
	for i := range limit - limit/8 + 1 {
		in := replyHandler{make(chan []byte, 1)}
		if i == 0 {
			first = in
		}
		c, err := device.Dial(t.Context(), s.transportAddr(t, "rdma"), rdma.ConnConfig{Handler: in, Recvs: 2})
		require.NoError(t, err)
		defer c.Close()
		nullCall(t, c, in)
		select {
		case _, open := <-first.got:
			require.False(t, open)
			require.Equal(t, limit-limit/8, i, "replaced")
			return
		default:
		}
	}
	select {
	case _, open := <-first.got:
		assert.False(t, open)
	case <-time.After(10 * time.Second):
		t.Error("all were taken")
	}
}
