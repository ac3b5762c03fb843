package main

import (
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/mountopt"
	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rpctls"
	"github.com/nfsrdma/nfsrdma/tickets"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// app is one run of the program: its flags, and the connections that its
// command has made.
type app struct {
	stdout, stderr io.Writer
	umask          uint32 // of this process, for objects created on servers

	crc      cli.Choice
	markers  cli.Choice
	bare     bool // no extensions
	inline   cli.Size
	credits  int
	timeout  time.Duration
	uid, gid int // below 0: this process's
	proto    cli.Choice
	sec      mountopt.Sec
	keytab   string
	xprtsec  cli.Choice
	tls      rpctls.Files
	alpn     cli.Choice
	clear    bool // MOUNT may be asked in clear
	kernel   cli.Choice

	helperOnce sync.Once
	helper     *tickets.Helper // see secure

	recordName string    // of a file, or ""
	record     *recorder // set with the first connection

	sessions map[server]*session
}

func newApp(stdout, stderr io.Writer) *app {
	umask := unix.Umask(0)
	unix.Umask(umask)
	return &app{stdout: stdout, stderr: stderr, umask: uint32(umask)}
}

// addFlags adds the flags that all commands have.
func (a *app) addFlags(f *pflag.FlagSet) {
	a.crc = cli.NewChoice("auto", "auto", "on", "off")
	a.markers = cli.NewChoice("off", "off", "on")
	a.proto = cli.NewChoice("rdma", "rdma", "tcp")
	a.xprtsec = cli.NewChoice("none", "none", "tls", "mtls")
	a.alpn = cli.NewChoice("any", "any", "strict")
	a.kernel = cli.NewChoice("off", "off", "auto")
	a.inline = 4 << 10
	f.SortFlags = false
	f.Var(&a.proto, "proto", "how calls go to servers: over RDMA or TCP")
	f.Var(&a.crc, "crc", "CRC32C on RDMA connections: auto and off use it if the server asks,\non asks for it")
	f.Var(&a.markers, "markers", "on asks the server for MPA markers, for tests: Linux's siw has none and refuses;\na server that asks gets them either way")
	f.BoolVar(&a.bare, "no-extensions", false, "speak the standards only: no extensions in private data, and FPDUs\nof TCP segments for every server")
	f.Var(&a.inline, "inline", "longest message sent without RDMA")
	f.IntVar(&a.credits, "credits", 128, "calls that may be under way on a connection")
	f.DurationVar(&a.timeout, "timeout", defaultTimeout, "how long to try to connect, and to wait for a server that is\nunreachable or silent")
	f.IntVar(&a.uid, "uid", -1, "act as this user on the server, not as the program's own user")
	f.IntVar(&a.gid, "gid", -1, "act as this group there")
	f.Var(&a.sec, "sec", "security flavours, with colons between them: sys, krb5, krb5i, krb5p; the first\nthat the export has is taken (default: the first of its list that can be used)")
	f.StringVar(&a.keytab, "keytab", defaultKeytab, "this machine's keys, with which root gets Kerberos tickets")
	f.Var(&a.xprtsec, "xprtsec", "protection of connections: tls encrypts them, and the server shows a certificate\n(on RDMA nfsrdmad --rdma-tls alone); with mtls this host shows one too")
	f.StringVar(&a.tls.Cert, "tls-cert", "", "`FILE` with the certificate of this host, for mtls")
	f.StringVar(&a.tls.Key, "tls-key", "", "`FILE` with its key")
	f.StringVar(&a.tls.CA, "tls-ca", "", "`FILE` with authorities of the server's certificate (default: those of this host)")
	f.StringVar(&a.tls.CRL, "tls-crl", "", "`FILE` with their revocation lists")
	f.Var(&a.alpn, "alpn", "strict refuses servers that do not say what TLS is for, as Linux's; on RDMA\nit is so always")
	f.BoolVar(&a.clear, "clear-mount", false, "with --xprtsec, and --sec: MOUNT may be asked in clear if the server has no TLS for it,\nas Linux's mountd")
	f.Var(&a.kernel, "tls-kernel", "auto has the kernel encrypt, if it has the module tls")
	f.StringVar(&a.recordName, "record", "", "when RDMA connections end, write their latest traffic to `FILE`, for Wireshark;\nit contains the data read and written")
}

// checkFlags checks the ranges that pflag cannot check. Its error is a usage
// error.
func (a *app) checkFlags() error {
	if a.timeout < minTimeout {
		return errors.New("--timeout is below " + minTimeout.String())
	}
	switch {
	case a.overTCP() && a.recordName != "":
		return errors.New("--record is for RDMA connections: tcpdump records TCP")
	case a.clear && (!a.encrypted() || len(a.sec) == 0):
		return errors.New("--clear-mount needs --xprtsec=tls or mtls, and --sec: whoever answers MOUNT in clear must not choose how users are known")
	}
	return errors.Join(
		cli.Within("--inline", int64(a.inline), cmpriv.MinSize, cmpriv.MaxSize),
		cli.Within("--credits", int64(a.credits), 1, mountopt.MaxCredits),
		cli.Within("--uid", int64(a.uid), -1, 1<<32-1),
		cli.Within("--gid", int64(a.gid), -1, 1<<32-1),
	)
}

// overRoCE returns the usage error of a command over RoCE that is to use TCP or TLS.
func (a *app) overRoCE() error {
	if a.overTCP() || a.encrypted() {
		return errors.New("this command sends over RoCE, which has neither TCP nor TLS: leave --proto and --xprtsec out")
	}
	return nil
}

// overTCP reports whether calls go over TCP.
func (a *app) overTCP() bool { return a.proto.Word == "tcp" }

// policy returns the CRC policy that --crc means for an initiator. An initiator
// that does not ask for CRCs still has them if the responder asks (RFC 5044,
// Section 7.1.2): Linux's siw and nfsrdmad do not ask, cards do.
func (a *app) policy() mpa.CRC {
	if a.crc.Word == "on" {
		return mpa.CRCOn
	}
	return mpa.CRCOff
}

// cred returns the credential of this run's calls.
func (a *app) cred() rpcmsg.Cred {
	cred := nfsclient.ProcessCred()
	if a.uid >= 0 || a.gid >= 0 {
		cred.GIDs = nil // the process's groups belong to another user
	}
	if a.uid >= 0 {
		cred.UID = uint32(a.uid)
	}
	if a.gid >= 0 {
		cred.GID = uint32(a.gid)
	}
	return cred
}

// close ends all connections.
func (a *app) close() {
	for _, s := range a.sessions {
		s.close()
	}
	if err := a.record.close(); err != nil {
		a.report(err)
	}
}

// printJSON prints v as one object.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
