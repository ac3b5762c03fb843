package main

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// maxGreeted bounds the exports for which the greeting has commands.
const maxGreeted = 4

// Ports that clients try by themselves.
const (
	rdmaPort = 20049
	tcpPort  = 2049
)

// greeting tells a person at a terminal how other hosts mount the exports, and who may.
// own are this host's addresses. Scripts get the ready line alone.
func (o *serveOptions) greeting(ways []cli.Way, own []netip.Addr) string {
	var rdma, tcp netip.AddrPort
	for _, w := range ways {
		if a, ok := w.Addr.(*net.TCPAddr); ok && w.Name == "rdma" {
			rdma = a.AddrPort()
		} else if ok && w.Name == "tcp" {
			tcp = a.AddrPort()
		}
	}
	hosts := reachable(rdma.Addr().Unmap(), own)
	host := hosts[0]
	list := o.exports[:min(len(o.exports), maxGreeted)]
	var b strings.Builder
	switch {
	case len(list) == 0:
		return "\nNothing is exported yet.\n"
	case o.encrypts():
		b.WriteString("\nMounts must be encrypted: docs/tls.md and docs/security.md have their options.\n")
	default:
		who := "Other Linux hosts mount"
		if host.IsLoopback() {
			who = "Only this host can connect. Linux mounts"
		}
		fmt.Fprintf(&b, "\n%s, as root:\n\n", who)
		for _, e := range list {
			if o.four() || tcp.IsValid() { // MOUNT of version 3 goes over TCP
				fmt.Fprintf(&b, "    mount -t nfs -o %s %s /mnt\n", o.mountOptions(rdma, tcp), source(host, e.name))
			}
			if tcp.IsValid() && slices.Contains(reachable(tcp.Addr().Unmap(), own), host) {
				fmt.Fprintf(&b, "    mount -t nfs%s %s /mnt    # over TCP\n", o.tcpOptions(tcp), source(host, e.name))
			}
		}
		b.WriteString("\nRDMA without an iWARP card needs this before, with the name of a network device:\n\n    rdma link add siw0 type siw netdev eth0\n\n" +
			"FUSE needs neither card nor root:\n\n")
		for _, e := range list {
			fmt.Fprintf(&b, "    mountrdma%s %s DIR\n", fuseOptions(rdma), source(host, e.name))
		}
		if n := len(o.exports) - len(list); n > 0 {
			fmt.Fprintf(&b, "\n%d more exports: nfsrdmad status lists them.\n", n)
		}
	}
	if len(hosts) > 1 {
		var names []string
		for _, h := range hosts[1:] {
			names = append(names, h.String())
		}
		fmt.Fprintf(&b, "\nOther addresses of this host: %s.\n", strings.Join(names, ", "))
	}
	b.WriteString("\n" + o.mayConnect(host.IsLoopback()) + "\n")
	return b.String()
}

// encrypts reports whether the flags refuse calls in clear.
func (o *serveOptions) encrypts() bool {
	return o.only || !o.transports.Take(exports.TransportNone) || o.rdma.Word == "require"
}

// mayConnect says in plain words who may do what.
func (o *serveOptions) mayConnect(local bool) string {
	may := "read and write"
	if o.readOnly {
		may = "read"
	}
	as := "as any user except root"
	if o.noRootSquash {
		as = "as any user, root included"
	}
	switch {
	case o.exportsFile != "":
		return fmt.Sprintf("Who may mount what is in %s; nfsrdmad exports check %[1]s explains it.", quoted(o.exportsFile))
	case o.sec != "" && !strings.Contains(":"+o.sec+":", ":sys:"):
		return fmt.Sprintf("Users may %s with a Kerberos ticket, each as itself.", may)
	case local:
		return fmt.Sprintf("Every program of this host may %s, %s.", may, as)
	case len(o.clientWords) > 0:
		return fmt.Sprintf("Every program on the hosts of %s may %s, %s: the server believes what a host says (AUTH_SYS).",
			strings.Join(o.clientWords, ", "), may, as)
	}
	return fmt.Sprintf("WARNING: every host that reaches these ports may %s, %s: the server\n"+
		"believes what a host says (AUTH_SYS). Name the hosts with --clients 192.0.2.0/24, or demand Kerberos\nwith --sec krb5p.", may, as)
}

// mountOptions returns the options for mount(8) over RDMA.
func (o *serveOptions) mountOptions(rdma, tcp netip.AddrPort) string {
	if o.four() {
		if rdma.Port() == rdmaPort {
			return "rdma"
		}
		return fmt.Sprintf("rdma,port=%d", rdma.Port())
	}
	return fmt.Sprintf("vers=3,proto=rdma,port=%d,mountproto=tcp,mountport=%d,nolock", rdma.Port(), tcp.Port())
}

// tcpOptions returns the options for mount(8) over TCP, with their flag.
func (o *serveOptions) tcpOptions(tcp netip.AddrPort) string {
	switch {
	case !o.four():
		return fmt.Sprintf(" -o vers=3,port=%d,mountport=%[1]d,mountproto=tcp,nolock", tcp.Port())
	case tcp.Port() != tcpPort:
		return fmt.Sprintf(" -o port=%d", tcp.Port())
	}
	return ""
}

// fuseOptions returns the options for mountrdma, with their flag.
func fuseOptions(rdma netip.AddrPort) string {
	if rdma.Port() == rdmaPort {
		return ""
	}
	return fmt.Sprintf(" -o port=%d", rdma.Port())
}

// four reports whether version 4 is served, by which Linux mounts unless told otherwise.
func (o *serveOptions) four() bool {
	return slices.ContainsFunc(o.versions, func(v string) bool { return strings.HasPrefix(v, "4") })
}

// source returns the first argument of mount(8), quoted for a shell.
func source(host netip.Addr, name string) string {
	if host.Is6() {
		return quoted("[" + host.String() + "]:" + name)
	}
	return quoted(host.String() + ":" + name)
}

// quoted quotes a word for a shell, if that is necessary.
func quoted(word string) string {
	if strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("-_./:@%+=,0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", r)
	}) {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// reachable returns the addresses by which other hosts reach a listener: its own, or
// those of the host, IPv4 first, and loopback alone if there are no others.
func reachable(at netip.Addr, own []netip.Addr) []netip.Addr {
	if !at.IsUnspecified() {
		return []netip.Addr{at}
	}
	var list []netip.Addr
	for _, four := range []bool{true, false} {
		for _, a := range own {
			if a.Is4() == four && a.IsGlobalUnicast() && (a.Is4() || !at.Is4()) {
				list = append(list, a)
			}
		}
	}
	if len(list) == 0 {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	return list
}

// ownAddresses returns this host's addresses. Without them, the greeting takes the
// host for one without a network.
func ownAddresses() (own []netip.Addr) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				own = append(own, ip.Unmap())
			}
		}
	}
	return own
}
