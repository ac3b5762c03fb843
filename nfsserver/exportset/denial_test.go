package exportset

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// TestRejectionsLogged checks that a rejected mount or call leaves a line with the client, the
// export, and the rule that rejected it, and that a flood of them does not flood the log.
func TestRejectionsLogged(t *testing.T) {
	var log bytes.Buffer
	var nets []string
	for range maxLoggedClients + 1 {
		nets = append(nets, "198.51.100.0/24")
	}
	s := newTestSet(t, &fakeRootFS{}, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		c.Exports[0].Clients = clientsOf(exports.Options{}, nets...)
	})
	logged := func(f func()) string {
		log.Reset()
		f()
		return log.String()
	}
	open := func(p *oncrpc.Peer) error {
		var q Request
		q.Begin(s, p, &rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, new(oncrpc.Reply))
		defer q.End()
		e := s.Snapshot().List()[0]
		root := e.FS.Root()
		_, err := q.Open(t.Context(), s.AppendHandle(nil, e, &root))
		return err
	}
	stranger := peerAt(1)
	listed := &oncrpc.Peer{Addr: netip.MustParseAddrPort("198.51.100.7:40000"), Network: "tcp"}

	clients := `clients="` + strings.Repeat("198.51.100.0/24 ", maxLoggedClients) + `..."`
	assert.Regexp(t, "the export is not for this client.* export=/x client=192.0.0.1 "+clients, logged(func() { assert.ErrorIs(t, open(stranger), Access) }))
	assert.Regexp(t, "requires a source port below 1024.* export=/x client=198.51.100.7 port=40000", logged(func() { assert.ErrorIs(t, open(listed), Perm) }))
	for peer, want := range map[*oncrpc.Peer]string{stranger: "not for this client", listed: "source port below 1024"} {
		assert.Contains(t, logged(func() {
			_, err := s.FindExport(t.Context(), peer, &rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, "/x/y")
			assert.ErrorIs(t, err, Access)
		}), want)
	}
	assert.Regexp(t, "no export is for this client.* client=192.0.0.1", logged(func() {
		assert.ErrorIs(t, s.CheckListed(t.Context(), stranger), Access)
		assert.ErrorIs(t, s.CheckListed(t.Context(), stranger), Access)
	}))
	assert.Equal(t, 1, strings.Count(log.String(), "\n"), "once for a connection")
	assert.Less(t, strings.Count(logged(func() {
		for range 1000 {
			_ = open(stranger)
		}
	}), "\n"), 50)
}
