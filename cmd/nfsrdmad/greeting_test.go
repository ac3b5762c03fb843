package main

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

var ownHost = []netip.Addr{
	netip.MustParseAddr("::1"), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("fe80::1"),
	netip.MustParseAddr("2001:db8::7"), netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("198.51.100.7"),
}

// formatTestGreeting returns the greeting of a daemon that listens at two addresses; no TCP if the
// second is empty.
func formatTestGreeting(o *serveOptions, rdma, tcp string, own ...netip.Addr) string {
	endpoints := []cli.Endpoint{{Name: "rdma", Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(rdma))}}
	if tcp != "" {
		endpoints = append(endpoints, cli.Endpoint{Name: "tcp", Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(tcp))})
	}
	return o.formatGreeting(endpoints, own)
}

func newGreetingOptions(names ...string) *serveOptions {
	o := &serveOptions{minors: []uint32{2}}
	for _, name := range names {
		o.exports = append(o.exports, exportSpec{name: name})
	}
	return o
}

func TestGreeting(t *testing.T) {
	assert.Equal(t, `
Other Linux hosts mount, as root:

    mount -t nfs -o rdma 192.0.2.7:/data /mnt
    mount -t nfs 192.0.2.7:/data /mnt    # over TCP

RDMA without an iWARP card first needs this, with the name of a network device:

    rdma link add siw0 type siw netdev eth0

FUSE needs neither a card nor root:

    mountrdma 192.0.2.7:/data DIR

Other addresses of this host: 198.51.100.7, 2001:db8::7.

WARNING: every host that reaches these ports may read and write, as any user except root: the server
trusts the users that a host claims (AUTH_SYS). List the hosts with --clients 192.0.2.0/24, or require
Kerberos with --sec krb5p.
`, formatTestGreeting(newGreetingOptions("/data"), "[::]:20049", "[::]:2049", ownHost...))
}

// TestGreetingCommands checks the commands for other ports, addresses, versions and
// names.
func TestGreetingCommands(t *testing.T) {
	v3 := newGreetingOptions("/a b")
	v3.minors = nil
	v4 := newGreetingOptions("/x")
	v4.noNFS3 = true
	for _, c := range []struct {
		o         *serveOptions
		rdma, tcp string
		want      []string // all lines with mount
	}{
		{newGreetingOptions("/x"), "127.0.0.1:1", "127.0.0.1:2", []string{
			"mount -t nfs -o rdma,port=1 127.0.0.1:/x /mnt", "mount -t nfs -o port=2 127.0.0.1:/x /mnt    # over TCP", "mountrdma -o port=1 127.0.0.1:/x DIR",
		}},
		{newGreetingOptions("/x"), "[2001:db8::9]:20049", "[::]:2049", []string{
			"mount -t nfs -o rdma '[2001:db8::9]:/x' /mnt", "mountrdma '[2001:db8::9]:/x' DIR", // the host has no such address any more
		}},
		{newGreetingOptions("/x"), "0.0.0.0:20049", "", []string{"mount -t nfs -o rdma 192.0.2.7:/x /mnt", "mountrdma 192.0.2.7:/x DIR"}},
		{v3, "0.0.0.0:20049", "[::]:2049", []string{
			"mount -t nfs -o vers=3,proto=rdma,port=20049,mountproto=tcp,mountport=2049,nolock '192.0.2.7:/a b' /mnt",
			"mount -t nfs -o vers=3,port=2049,mountport=2049,mountproto=tcp,nolock '192.0.2.7:/a b' /mnt    # over TCP", "mountrdma '192.0.2.7:/a b' DIR",
		}},
		{v4, "0.0.0.0:20049", "[::]:2049", []string{"mount -t nfs -o rdma 192.0.2.7:/x /mnt", "mount -t nfs 192.0.2.7:/x /mnt    # over TCP"}},
		{v3, "0.0.0.0:20049", "", []string{"mountrdma '192.0.2.7:/a b' DIR"}},
		{newGreetingOptions("/it's"), "0.0.0.0:20049", "", []string{`mount -t nfs -o rdma '192.0.2.7:/it'\''s' /mnt`, `mountrdma '192.0.2.7:/it'\''s' DIR`}},
	} {
		var got []string
		for line := range strings.Lines(formatTestGreeting(c.o, c.rdma, c.tcp, ownHost...)) {
			if strings.HasPrefix(line, "    mount") {
				got = append(got, strings.TrimSpace(line))
			}
		}
		assert.Equal(t, c.want, got)
	}
	many := formatTestGreeting(newGreetingOptions("/1", "/2", "/3", "/4", "/5"), "[::]:20049", "", ownHost...)
	assert.Contains(t, many, "1 more exports")
	assert.NotContains(t, many, ":/5")
	assert.Contains(t, formatTestGreeting(newGreetingOptions("/x"), "[::]:20049", "", ownHost[:3]...), "Only this host can connect.")
	assert.Equal(t, "\nNothing is exported yet.\n", formatTestGreeting(newGreetingOptions(), "[::]:20049", ""))
	encrypted := newGreetingOptions("/x")
	var err error
	encrypted.transports, err = exports.ParseTransports("tls")
	require.NoError(t, err)
	assert.Contains(t, formatTestGreeting(encrypted, "[::]:20049", "", ownHost...), "Mounts must be encrypted")
}

// TestGreetingWho checks what is said about who may connect.
func TestGreetingWho(t *testing.T) {
	for want, o := range map[string]*serveOptions{
		"every host that reaches these ports may read, as any user, root included": {readOnly: true, noRootSquash: true},
		"Every program on the hosts in 192.0.2.0/24, a may read and write":         {clientWords: []string{"192.0.2.0/24", "a"}},
		"Users may read and write with a Kerberos ticket":                          {sec: "krb5:krb5p"},
		"WARNING": {sec: "krb5:sys"},
		"'/a b' lists who may mount what; nfsrdmad exports check '/a b' explains it.": {exportsFile: "/a b"},
	} {
		assert.Contains(t, o.describeAccess(false), want)
	}
	assert.Contains(t, new(serveOptions).describeAccess(true), "Every program on this host may read and write")
}

// TestGreetingWithoutRDMA checks that no command names an address at which RDMA does not listen yet.
func TestGreetingWithoutRDMA(t *testing.T) {
	tcp := cli.Endpoint{Name: "tcp", Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[::]:2049"))}
	assert.Equal(t, "\nRDMA is not served yet: nfsrdmad status shows when it is.\n",
		newGreetingOptions("/data").formatGreeting([]cli.Endpoint{tcp}, ownHost))
}
