package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/mountopt"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// app is one run of the program: its flags, and the connections that its
// command has opened.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	umask          uint32 // this process's, for objects created on servers

	crc           cli.Choice
	markers       cli.Choice
	standardsOnly bool // no extensions of this project
	inline        cli.Size
	credits       int
	timeout       time.Duration
	uid, gid      int // below 0: this process's
	proto         cli.Choice
	sec           mountopt.Sec
	keytab        string
	forMount      bool // tickets are those that a mount uses, not those of this process's environment
	xprtsec       cli.Choice
	tls           rpctls.Files
	alpn          cli.Choice
	clearMount    bool // MOUNT calls may be unencrypted
	kernelTLS     cli.Choice

	helperOnce sync.Once
	helper     *tickets.Helper // see secure

	recordName string    // file name, or ""
	recorder   *recorder // set with the first connection

	sessions map[server]*session
}

func newApp(stdout, stderr io.Writer) *app {
	umask := unix.Umask(0)
	unix.Umask(umask)
	return &app{stdin: os.Stdin, stdout: stdout, stderr: stderr, umask: uint32(umask)}
}

// addFlags adds the flags that all commands have.
func (a *app) addFlags(f *pflag.FlagSet) {
	a.crc = cli.NewChoice("auto", "auto", "on", "off")
	a.markers = cli.NewChoice("off", "off", "on")
	a.proto = cli.NewChoice("rdma", "rdma", "tcp")
	a.xprtsec = cli.NewChoice("none", "none", "tls", "mtls")
	a.alpn = cli.NewChoice("any", "any", "strict")
	a.kernelTLS = cli.NewChoice("off", "off", "auto")
	a.inline = 4 << 10
	f.SortFlags = false
	f.Var(&a.proto, "proto", "transport: RDMA or TCP")
	f.Var(&a.crc, "crc", "CRC32C on RDMA connections: on requests it; auto and off use it if the\nserver requests it")
	f.Var(&a.markers, "markers", "on requests MPA markers from the server, for tests (Linux's siw has none and\nrejects the request); a server that requests them always gets them")
	f.BoolVar(&a.standardsOnly, "no-extensions", false, "use only the standards: no extensions in private data, and FPDUs that fit\na TCP segment for every server")
	f.Var(&a.inline, "inline", "maximum size of a message sent without RDMA")
	f.IntVar(&a.credits, "credits", 128, "maximum number of calls in flight on a connection")
	f.DurationVar(&a.timeout, "timeout", defaultTimeout, "time limit for connecting, and for a server that is unreachable\nor does not respond")
	f.IntVar(&a.uid, "uid", -1, "act as this user on the server, instead of the program's own user")
	f.IntVar(&a.gid, "gid", -1, "act as this group on the server")
	f.Var(&a.sec, "sec", "security flavors, separated by colons: sys, krb5, krb5i, krb5p; the first one that the\nexport offers is used (default: the first usable flavor that the export lists)")
	f.StringVar(&a.keytab, "keytab", defaultKeytab, "keytab `FILE` with which root gets Kerberos tickets; commands without a mount first\nuse the credential cache, $KRB5CCNAME or the default one")
	f.Var(&a.xprtsec, "xprtsec", "connection protection: tls encrypts, and the server presents a certificate (on RDMA,\nonly nfsrdmad --rdma-tls); with mtls this host presents one too")
	f.StringVar(&a.tls.Cert, "tls-cert", "", "`FILE` with this host's certificate, for mtls")
	f.StringVar(&a.tls.Key, "tls-key", "", "`FILE` with the key of --tls-cert")
	f.StringVar(&a.tls.CA, "tls-ca", "", "`FILE` with the authorities that may sign the server's certificate (default: this\nhost's)")
	f.StringVar(&a.tls.CRL, "tls-crl", "", "`FILE` with the authorities' revocation lists")
	f.Var(&a.alpn, "alpn", "strict rejects servers without ALPN \"sunrpc\" (Linux's tlshd 1.0.0 sends none);\non RDMA it is always strict")
	f.BoolVar(&a.clearMount, "clear-mount", false, "with --xprtsec and --sec: send MOUNT calls unencrypted if the server's MOUNT service\nhas no TLS, as Linux's mountd")
	f.Var(&a.kernelTLS, "tls-kernel", "auto lets the kernel encrypt, if it has the tls module")
	f.StringVar(&a.recordName, "record", "", "when RDMA connections close, write their latest traffic to `FILE`, for Wireshark;\nit contains the data read and written")
}

// checkFlags checks the ranges that pflag cannot check. Its errors are usage
// errors.
func (a *app) checkFlags() error {
	if a.timeout < minTimeout {
		return errors.New("--timeout is below " + minTimeout.String())
	}
	switch {
	case a.overTCP() && a.recordName != "":
		return errors.New("--record is for RDMA connections: tcpdump records TCP")
	case a.clearMount && (!a.usesTLS() || len(a.sec) == 0):
		return errors.New("--clear-mount needs --xprtsec=tls or mtls, and --sec: an unencrypted MOUNT reply can be forged, and must not choose the security flavor")
	}
	return errors.Join(
		cli.CheckRange("--inline", int64(a.inline), cmpriv.MinSize, cmpriv.MaxSize),
		cli.CheckRange("--credits", int64(a.credits), 1, mountopt.MaxCredits),
		cli.CheckRange("--uid", int64(a.uid), -1, 1<<32-1),
		cli.CheckRange("--gid", int64(a.gid), -1, 1<<32-1),
	)
}

// overRoCE returns a usage error if a command that uses RoCE is given flags for TCP or TLS.
func (a *app) overRoCE() error {
	if a.overTCP() || a.usesTLS() {
		return errors.New("this command sends over RoCE, which has neither TCP nor TLS: leave --proto and --xprtsec out")
	}
	return nil
}

// overTCP reports whether calls use TCP.
func (a *app) overTCP() bool { return a.proto.Word == "tcp" }

// crcPolicy returns the CRC policy that --crc means for an initiator. An initiator that
// does not request CRCs still uses them if the responder requests them (RFC 5044,
// Section 7.1.2): Linux's siw and nfsrdmad do not, cards do.
func (a *app) crcPolicy() mpa.CRC {
	if a.crc.Word == "on" {
		return mpa.CRCOn
	}
	return mpa.CRCOff
}

// callCred returns the credential for calls.
func (a *app) callCred() rpcmsg.Cred {
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

// closeSessions closes all connections, and the file of --record.
func (a *app) closeSessions() {
	for _, s := range a.sessions {
		s.close()
	}
	if err := a.recorder.close(); err != nil {
		a.printError(err)
	}
}

// printJSON prints v as one JSON value.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
