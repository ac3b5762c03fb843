package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProfiles checks that profiles are for the owner of the control socket alone, and for a
// bounded time.
func TestProfiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "", "--metrics", "127.0.0.1:0", "--control", path, t.TempDir()+"=/x")
	owner := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	network := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, tt := range []struct {
		client *http.Client
		url    string
		want   int
	}{
		{owner, "http://nfsrdmad/debug/pprof/", http.StatusOK},
		{owner, "http://nfsrdmad/debug/pprof/cmdline", http.StatusOK},
		{owner, "http://nfsrdmad/debug/pprof/heap", http.StatusOK},
		{owner, "http://nfsrdmad/debug/pprof/trace?seconds=0.01", http.StatusOK},
		{owner, "http://nfsrdmad/debug/pprof/trace?seconds=61", http.StatusBadRequest},
		{owner, "http://nfsrdmad/debug/pprof/trace?seconds=nan", http.StatusBadRequest},
		{owner, "http://nfsrdmad/debug/pprof/profile?seconds=1000000", http.StatusBadRequest},
		{owner, "http://nfsrdmad/debug/pprof/heap?seconds=86400", http.StatusBadRequest},
		{network, "http://" + s.transportAddr(t, "metrics") + "/debug/pprof/", http.StatusNotFound},
		{network, "http://" + s.transportAddr(t, "metrics") + "/debug/pprof/cmdline", http.StatusNotFound},
		{network, "http://" + s.transportAddr(t, "metrics") + "/debug/pprof/trace?seconds=0.01", http.StatusNotFound},
	} {
		resp, err := tt.client.Get(tt.url)
		require.NoError(t, err, tt.url)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		assert.Equal(t, tt.want, resp.StatusCode, tt.url)
	}
}
