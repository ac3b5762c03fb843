package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// TestInfoExtensions checks that info shows the extensions that both ends have.
func TestInfoExtensions(t *testing.T) {
	with := func(x rpcrdma.ExtensionConfig) serverSetting {
		return func(s *rpcrdma.Server, _ *iwarp.Config, _ *nfsserver.Config) { s.Extensions = &x }
	}
	checkLeaks(t)
	server, other := startTestServer(t, with(rpcrdma.ExtensionConfig{Atomics: true})), startTestServer(t)
	delegates := startTestServer(t, with(rpcrdma.ExtensionConfig{
		Atomics: true, Delegation: true, Counters: 512, ImmediateRecvs: 7,
		Attach: func(*rpcrdma.ExtensionConn) rpcrdma.ExtensionHandler { return fakeIdleExtension{} },
	}))
	type set = map[string]any
	on := set{"server": true, "immediate_data": 0.0, "atomics": true, "delegation": false, "counters": 0.0}
	none := set{"server": false, "immediate_data": 0.0, "atomics": false, "delegation": false, "counters": 0.0}
	all := set{"server": true, "immediate_data": 7.0, "atomics": true, "delegation": true, "counters": 512.0}
	for name, tt := range map[string]struct {
		args []string
		want set
		text string
	}{
		"both":        {[]string{server.addr}, on, "extensions           known, atomics\n"},
		"delegation":  {[]string{delegates.addr}, all, "extensions           known, immediate data (7), atomics, delegation (512 words)\n"},
		"client only": {[]string{other.addr}, none, "extensions           none\n"},
		"server only": {[]string{server.addr, "--no-extensions"}, none, "extensions           none\n"},
	} {
		t.Run(name, func(t *testing.T) {
			o := decodeObject(t, mustRun(t, append([]string{"info", "--json"}, tt.args...)...))
			assert.Equal(t, tt.want, o["rpcrdma"].(set)["extensions"])
			assert.Contains(t, mustRun(t, append([]string{"info"}, tt.args...)...), tt.text)
		})
	}
}

// fakeIdleExtension is the server's end of an rpcrdma.ExtensionConn without delegations.
type fakeIdleExtension struct{}

func (fakeIdleExtension) Immediate([8]byte) {}
func (fakeIdleExtension) Closed(error)      {}

// TestExtensionOffered checks that the request of this program contains the
// block, except with --no-extensions.
func TestExtensionOffered(t *testing.T) {
	checkLeaks(t)
	l, err := iwarp.Open(iwarp.Config{CRC: mpa.CRCOff}).Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	requests := make(chan []byte, 2)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 2 {
			r, err := l.Accept(context.Background())
			if assert.NoError(t, err) {
				requests <- r.PrivateData()
				assert.NoError(t, r.Reject(nil))
			}
		}
	}()
	mustFail(t, "ping", l.Addr().String())
	e, ok := cmpriv.ParseExtension(<-requests)
	assert.True(t, ok)
	assert.Equal(t, cmpriv.Extension{Atomics: true}, e)
	mustFail(t, "ping", l.Addr().String(), "--no-extensions")
	assert.Len(t, <-requests, cmpriv.Len)
	<-done
}

// TestBare checks that --no-extensions offers no extension of this project.
func TestBare(t *testing.T) {
	for _, bare := range []bool{false, true} {
		cfg := (&app{standardsOnly: bare}).mountLikeConfig()
		assert.Equal(t, bare, cfg.StandardsOnly)
		assert.Equal(t, !bare, cfg.Delegations != nil)
	}
}

// TestMountOffers checks that a mount offers delegation, unless an
// option forbids delegations or makes them useless.
func TestMountOffers(t *testing.T) {
	for list, want := range map[string]bool{
		"": true, "nconnect=2": true, "nodeleg": false, "nodeleg,deleg": true, "noac": false, "sync": false,
		"noac,ac": true, "noextensions": false,
	} {
		m := newMountCommand(t, list)
		cfg := m.clientConfig()
		assert.Equal(t, want, cfg.Delegations != nil, list)
		assert.Equal(t, list == "noextensions", cfg.StandardsOnly, list)
	}
}
