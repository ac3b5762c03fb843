package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
)

// TestInWords checks that splitRemedy finds the remedy in each kind of error.
func TestInWords(t *testing.T) {
	steps := []nfsclient.SearchStep{{At: "port 20048", Err: errors.New("dial: refused")}}
	lack := &tickets.Error{User: "alice", Reason: wire.NoTicket, Text: "no ticket (FILE:/tmp/a): run kinit"}
	flavors := &nfsclient.FlavorError{Path: "/x", Wanted: []uint32{rpcmsg.AuthKrb5p}, Accepted: []uint32{rpcmsg.AuthSys}}
	missing := *flavors
	missing.Cause = errNoContextHelper
	for _, tt := range []struct {
		err           error
		found, remedy string
	}{
		{dialError(t.Context(), "h:1", errors.New("odd")), "TCP connect: odd", "correct the address"},
		{fmt.Errorf("MOUNT: %w", &nfsclient.SearchError{Host: "h", Steps: steps}), "MOUNT: no MOUNT service found on h (port 20048: dial: refused)", "start rpcbind and mountd there, open their ports to this host, or name the port with mountport=N"},
		{fmt.Errorf("stat: %w", lack), "alice: no ticket (FILE:/tmp/a)", "run kinit"},
		{&tickets.Error{User: "alice", Text: "nfsrdma-gss cannot be started: no"}, "alice: nfsrdma-gss cannot be started: no", "see klist, /etc/krb5.conf and the server's log"},
		{mountError(t.Context(), "h:1", flavors), "MOUNT: the export /x wants krb5p; the mount says sec=sys", "mount with sec=krb5p"},
		{mountError(t.Context(), "h:1", &missing), "MOUNT: the export /x wants krb5p; the mount says sec=sys: krb5 needs the program nfsrdma-gss, which is neither in mountrdma's directory nor in PATH", "install it"},
		{mountError(t.Context(), "h:1", fmt.Errorf("%w: it wants more: use xprtsec=tls", rpcmsg.AuthTooWeak)), "MOUNT: " + rpcmsg.AuthTooWeak.Error() + ": it wants more", "use xprtsec=tls"},
		{mountError(t.Context(), "h:1", fmt.Errorf("MOUNT: %w", rpcmsg.AuthTooWeak)), "MOUNT: MOUNT: " + rpcmsg.AuthTooWeak.Error(), "add xprtsec=mtls, xprtsec=tls or sec=krb5p to the options"},
		{&tickets.Error{User: "alice", Reason: wire.NoTicket, Text: "only a mount by root can"}, "alice: only a mount by root can", "see klist, /etc/krb5.conf and the server's log"},
		{&tickets.Error{User: "alice", Reason: wire.NoTicket, Text: "no ticket from the keytab /k (no)"}, "alice: no ticket from the keytab /k (no)", "see klist, /etc/krb5.conf and the server's log"},
		{tlsError("h:1", &rpctls.Error{Reason: rpctls.Broken, Text: "the handshake failed: EOF"}), "TLS: the handshake failed: EOF", "correct this at the end that it names (/usr/share/doc/nfsrdma/tls.md), or connect without --xprtsec"},
		{errors.New("anything: else"), "anything: else", "the other"},
		{errNoContextHelper, "krb5 needs the program nfsrdma-gss, which is neither in mountrdma's directory nor in PATH", "install it"},
	} {
		found, remedy := splitRemedy(tt.err, "the other")
		assert.Equal(t, tt.found, found)
		assert.Equal(t, tt.remedy, remedy, tt.found)
	}
	found, remedy := cutRemedy("no remedy (see: that)", "the other")
	assert.Equal(t, []string{"no remedy (see: that)", "the other"}, []string{found, remedy})
}
