package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/doctor"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
)

// checkProtocols queries the server, whose port is open. tcp is the address of NFS over TCP,
// or "".
func (e *examination) checkProtocols(ctx context.Context, tcp string) {
	i, err := e.queryServer(ctx, e.at.server)
	if err != nil {
		check := "nfs"
		if step, ok := errors.AsType[*stepError](err); ok && strings.HasPrefix(step.step, "MPA") {
			check = "mpa"
		}
		e.addError(check, doctor.Fail, err)
		return
	}
	if i.MPA != nil {
		e.checkTransport(i)
	}
	e.checkVersions(i)
	if tcp != "" && !e.usesTLS() {
		e.checkTLS(ctx, tcp)
	}
	s := e.sessions[e.at.server]
	if slices.Contains(i.Versions, "3") {
		if i.Problem != "" {
			e.addError("mount", doctor.Fail, i.mountErr)
		} else {
			e.addOK("mount", "MOUNT answers (%s)", i.Mount)
			e.checkLocks(ctx, s)
			e.checkExports(ctx, s)
		}
	}
	e.checkLargeCalls(ctx, s)
}

// checkTransport judges the negotiated settings of a connection.
func (e *examination) checkTransport(i *serverInfo) {
	m, r := i.MPA, i.RPC
	e.addOK("mpa", "MPA revision %d, CRC %s, markers %s, %d RDMA Reads of the server at a time, %d of this host",
		m.Revision, onOff(m.CRC), onOff(m.Markers), m.IRD, m.ORD)
	if !r.PrivateData {
		e.addFinding("private-data", doctor.Warn, fmt.Sprintf("the server sends no private data (RFC 8797): messages longer than %d bytes use RDMA, which is slower", r.InlineSend),
			"update the server: Linux since 4.9 and nfsrdmad send them")
		return
	}
	e.addOK("private-data", "messages up to %d bytes to the server and %d from it are sent without RDMA, with %d credits", r.InlineSend, r.InlineRecv, r.Credits)
}

func (e *examination) checkVersions(i *serverInfo) {
	if slices.Contains(i.Versions, "3") {
		e.addOK("versions", "the server has NFS versions %s", strings.Join(i.Versions, ", "))
	} else {
		e.addFinding("versions", doctor.Fail, fmt.Sprintf("the server has only NFS versions %s, and mountrdma mounts over NFSv3", strings.Join(i.Versions, ", ")),
			"enable NFSv3 there (knfsd: vers3=y in /etc/nfs.conf; nfsrdmad: --vers 3,4.1,4.2), or use mount -t nfs")
	}
	if i.V4Error != "" {
		e.addFinding("version-4", doctor.Warn, "NFSv4: "+i.V4Error, "this matters only to other clients: see the server's log")
	}
}

// checkTLS checks whether the server has TLS on TCP.
func (e *examination) checkTLS(ctx context.Context, addr string) {
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
		e.addOK("tls", "the server has TLS on TCP: --proto tcp --xprtsec tls, and xprtsec=tls of mounts, encrypt")
	case secret != nil && secret.Reason == rpctls.NoTLS:
		e.addOK("tls", "the server has no TLS on TCP")
	default:
		e.addFinding("tls", doctor.Warn, "TLS on TCP fails: "+err.Error(), "correct this before mounting with xprtsec=")
	}
}

// checkLocks looks for the NFSv3 lock manager.
func (e *examination) checkLocks(ctx context.Context, s *session) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	x := oncrpc.Exchange{Prog: nlm4.Program, Vers: nlm4.Version, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthNone}}
	err := s.line.Call(ctx, &x)
	if err == nil {
		x.Release()
		e.addOK("locks", "locks hold at the server")
		return
	}
	if port, known := e.queryRpcbind(ctx, s, nlm4.Program, nlm4.Version); known && !e.usesTLS() {
		e.addOK("locks", "locks hold at the server: its lock manager is at port %d", port)
		return
	}
	e.addFinding("locks", doctor.Warn, "the server has no lock manager that this host finds: locks hold on this host only", locksRemedy(err))
}

// queryRpcbind queries the server's rpcbind for a TCP port.
func (e *examination) queryRpcbind(ctx context.Context, s *session, prog, vers uint32) (port uint16, known bool) {
	c, err := oncrpc.DialTCP(ctx, net.JoinHostPort(s.client.MountSearch().Host, fmt.Sprint(rpcbind.Port)), oncrpc.ClientConfig{})
	if err != nil {
		return 0, false
	}
	defer c.Close()
	port, err = rpcbind.GetPort(ctx, c, prog, vers, rpcbind.TCP)
	return port, err == nil && port != 0
}

// maxTriedExports bounds the exports that are mounted if the operand names none.
const maxTriedExports = 8

// checkExports mounts the exports that this host may mount.
func (e *examination) checkExports(ctx context.Context, s *session) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.timeout, errTimeout)
	defer cancel()
	if e.hasPath {
		fs, _, err := s.openExport(ctx, e.at.path)
		if err != nil {
			e.addError("export", doctor.Fail, err)
			return
		}
		e.checkExport(ctx, s, e.at.path, fs, doctor.Fail)
		return
	}
	if s.exportsErr != nil {
		found, remedy := splitRemedy(unwrapOnce(s.exportsErr), "name one: mountrdma doctor SERVER:/EXPORT")
		e.addFinding("export", doctor.Warn, "the server does not list its exports: "+found, remedy)
		return
	}
	if len(s.exports) == 0 {
		e.addFinding("export", doctor.Warn, "the server lists no export", "name one: mountrdma doctor SERVER:/EXPORT")
		return
	}
	may := 0
	for _, x := range s.exports[:min(len(s.exports), maxTriedExports)] {
		fs, err := s.mountDir(ctx, cleanPath(x.Path))
		if err != nil {
			e.addError("export", doctor.Warn, err)
			continue
		}
		if e.checkExport(ctx, s, x.Path, fs, doctor.Warn) {
			may++
		}
	}
	if may == 0 {
		e.addFinding("export", doctor.Fail, "this host may mount none of the server's exports", "add this host to the exports there (nfsrdmad: see nfsrdmad exports add --help)")
	}
}

// checkExport checks an export that this host may mount, and reports whether this user may
// use it; bad is the grade if not.
func (e *examination) checkExport(ctx context.Context, s *session, path string, fs *nfsclient.FS, bad doctor.Grade) bool {
	flavor := exports.Flavor(fs.Client().Flavor())
	node, err := fs.Stat(ctx, "")
	if err == nil && flavor.Kerberos() && s.contexts != nil {
		err = s.contexts.Lack(ctx, s.cred)
	}
	if err != nil {
		found, remedy := splitRemedy(cli.Cause(err), "see the server's log, or mount with another sec=")
		e.addFinding("export", bad, fmt.Sprintf("export %s, sec=%v: %s", escapePath(path), flavor, found), remedy)
		return false
	}
	e.addOK("export", "this host may mount %s, sec=%v", escapePath(path), flavor)
	changed := node.Attr.Ctime // set by the server's clock; users cannot set it
	if ahead := time.Unix(int64(changed.Sec), int64(changed.Nsec)).Sub(e.now()); ahead > clockSlack {
		e.addFinding("server-clock", doctor.Warn, fmt.Sprintf("the server's clock is at least %v ahead of this host's: %s has changed in the future", ahead.Round(time.Second), escapePath(path)),
			"synchronize both clocks (timedatectl set-ntp true): Kerberos permits 5 minutes")
	}
	return true
}

// clockSlack is the clock difference that harms neither people nor make(1).
const clockSlack = 5 * time.Second
