package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/doctor"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rpcbind"
	"github.com/nfsrdma/nfsrdma/rpctls"
)

// protocol asks the server, whose port is open. tcp is the address of NFS over TCP, or "".
func (e *examination) protocol(ctx context.Context, tcp string) {
	i, err := e.info(ctx, e.at.server)
	if err != nil {
		check := "nfs"
		if step, ok := errors.AsType[*stepError](err); ok && strings.HasPrefix(step.step, "MPA") {
			check = "mpa"
		}
		e.failed(check, doctor.Fail, err)
		return
	}
	if i.MPA != nil {
		e.transport(i)
	}
	e.versions(i)
	if tcp != "" && !e.encrypted() {
		e.tls(ctx, tcp)
	}
	s := e.sessions[e.at.server]
	if slices.Contains(i.Versions, "3") {
		if i.Problem != "" {
			e.failed("mount", doctor.Fail, i.problem)
		} else {
			e.ok("mount", "MOUNT answers (%s)", i.Mount)
			e.locks(ctx, s)
			e.exports(ctx, s)
		}
	}
	e.large(ctx, s)
}

// transport judges the start of a connection.
func (e *examination) transport(i *info) {
	m, r := i.MPA, i.RPC
	e.ok("mpa", "MPA revision %d, CRC %s, markers %s, %d RDMA Reads of the server at a time, %d of this host",
		m.Revision, onOff(m.CRC), onOff(m.Markers), m.IRD, m.ORD)
	if !r.PrivateData {
		e.found("private-data", doctor.Warn, fmt.Sprintf("the server sends no private data (RFC 8797): messages above %d bytes go by RDMA, which is slower", r.InlineSend),
			"update the server: Linux since 4.9 and nfsrdmad send them")
		return
	}
	e.ok("private-data", "messages of %d bytes to the server and %d from it go without RDMA, %d calls at a time", r.InlineSend, r.InlineRecv, r.Credits)
}

func (e *examination) versions(i *info) {
	if slices.Contains(i.Versions, "3") {
		e.ok("versions", "the server has NFS versions %s", strings.Join(i.Versions, ", "))
	} else {
		e.found("versions", doctor.Fail, fmt.Sprintf("the server has NFS versions %s alone, and mountrdma mounts by version 3", strings.Join(i.Versions, ", ")),
			"turn version 3 on there (knfsd: vers3=y in /etc/nfs.conf; nfsrdmad: --vers 3,4.1,4.2), or mount with mount -t nfs")
	}
	if i.V4Error != "" {
		e.found("version-4", doctor.Warn, "version 4: "+i.V4Error, "of use to other clients alone: see the server's log")
	}
}

// tls sees whether the server has TLS on TCP.
func (e *examination) tls(ctx context.Context, addr string) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	c, err := rpctls.NewClient(rpctls.ClientConfig{Files: rpctls.Files{CA: e.app.tls.CA, CRL: e.app.tls.CRL}, Host: e.at.host})
	var nc net.Conn
	if err == nil {
		nc, err = new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
	if err == nil {
		var conn *rpctls.Conn
		if conn, err = c.Secure(ctx, nc, nfs3.Program, nfs3.Version); err == nil {
			conn.Close()
		}
	}
	secret, _ := errors.AsType[*rpctls.Error](err)
	switch {
	case err == nil:
		e.ok("tls", "the server has TLS on TCP: --proto tcp --xprtsec tls, and xprtsec=tls of mounts, encrypt")
	case secret != nil && secret.Reason == rpctls.NoTLS:
		e.ok("tls", "the server has no TLS on TCP")
	default:
		e.found("tls", doctor.Warn, "TLS on TCP fails: "+err.Error(), "correct it for mounts with xprtsec=")
	}
}

// locks looks for the lock manager of version 3.
func (e *examination) locks(ctx context.Context, s *session) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	x := oncrpc.Exchange{Prog: nlm4.Program, Vers: nlm4.Version, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthNone}}
	err := s.line.Call(ctx, &x)
	if err == nil {
		x.Release()
		e.ok("locks", "locks hold at the server")
		return
	}
	if port, known := e.registered(ctx, s, nlm4.Program, nlm4.Version); known && !e.encrypted() {
		e.ok("locks", "locks hold at the server, by its lock manager at port %d", port)
		return
	}
	e.found("locks", doctor.Warn, "the server has no lock manager that this host finds: locks hold on this host only", locksRemedy(err))
}

// registered asks the server's rpcbind for a TCP port.
func (e *examination) registered(ctx context.Context, s *session, prog, vers uint32) (port uint16, known bool) {
	c, err := oncrpc.DialTCP(ctx, net.JoinHostPort(s.client.MountSearch().Host, fmt.Sprint(rpcbind.Port)), oncrpc.ClientConfig{})
	if err != nil {
		return 0, false
	}
	defer c.Close()
	port, err = rpcbind.GetPort(ctx, c, prog, vers, rpcbind.TCP)
	return port, err == nil && port != 0
}

// maxMounted is how many exports are mounted if the operand names none.
const maxMounted = 8

// exports mounts what this host may.
func (e *examination) exports(ctx context.Context, s *session) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.timeout, errTimeout)
	defer cancel()
	if e.named {
		fs, _, err := s.open(ctx, e.at.path)
		if err != nil {
			e.failed("export", doctor.Fail, err)
			return
		}
		e.mounted(ctx, s, e.at.path, fs, doctor.Fail)
		return
	}
	if s.unlisted != nil {
		found, remedy := inWords(bare(s.unlisted), "name one: mountrdma doctor SERVER:/EXPORT")
		e.found("export", doctor.Warn, "the server does not list its exports: "+found, remedy)
		return
	}
	if len(s.exports) == 0 {
		e.found("export", doctor.Warn, "the server lists no export", "name one: mountrdma doctor SERVER:/EXPORT")
		return
	}
	may := 0
	for _, x := range s.exports[:min(len(s.exports), maxMounted)] {
		fs, err := s.mountDir(ctx, clean(x.Path))
		if err != nil {
			e.failed("export", doctor.Warn, err)
			continue
		}
		if e.mounted(ctx, s, x.Path, fs, doctor.Warn) {
			may++
		}
	}
	if may == 0 {
		e.found("export", doctor.Fail, "this host may mount none of the server's exports", "add this host to the exports there (nfsrdmad: see nfsrdmad exports add --help)")
	}
}

// mounted judges an export that this host may mount, and reports whether this user may use
// it; bad is the grade if not.
func (e *examination) mounted(ctx context.Context, s *session, path string, fs *nfsclient.FS, bad doctor.Grade) bool {
	flavor := exports.Flavor(fs.Client().Flavor())
	node, err := fs.Stat(ctx, "")
	if err == nil && flavor.Kerberos() && s.contexts != nil {
		err = s.contexts.Lack(ctx, s.cred)
	}
	if err != nil {
		found, remedy := inWords(cli.Cause(err), "see the server's log, or mount with another sec=")
		e.found("export", bad, fmt.Sprintf("export %s, sec=%v: %s", escape(path), flavor, found), remedy)
		return false
	}
	e.ok("export", "this host may mount %s, sec=%v", escape(path), flavor)
	changed := node.Attr.Ctime // by the server's clock, whatever users do
	if ahead := time.Unix(int64(changed.Sec), int64(changed.Nsec)).Sub(e.now()); ahead > clockSlack {
		e.found("server-clock", doctor.Warn, fmt.Sprintf("the server's clock is at least %v ahead of this host's: %s has changed in the future", ahead.Round(time.Second), escape(path)),
			"synchronize both clocks (timedatectl set-ntp true): Kerberos permits 5 minutes")
	}
	return true
}

// clockSlack is how far clocks may differ without harm to people and make(1).
const clockSlack = 5 * time.Second
