package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/internal/doctor"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
)

func (a *app) newDoctor() *cobra.Command {
	e := &examination{mountCommand: &mountCommand{app: a}, largeTimeout: largeCallTimeout, now: time.Now}
	var report doctor.Report
	cmd := &cobra.Command{
		Use:   "doctor SERVER[:PORT]|SERVER:/EXPORT|URL",
		Short: "Find out why this host cannot mount from a server, and suggest remedies",
		Long: `Find out why this host cannot mount from a server. The checks cover, on this host,
FUSE, the open-files limit, the clock and hung mounts; the server's name; the
ports of NFS on RDMA, NFS over TCP and rpcbind, and where a firewall drops or
rejects packets; the MPA start-up; NFS versions, MOUNT, locks and TLS; which
exports this host may mount, with which security; the server's clock; and calls
longer than a packet. With SERVER:/EXPORT or a URL, only that export is mounted.
-o takes the options of the failing mount.

Each line is ok, warn or fail; warn and fail include a remedy. The exit status is
1 if anything fails. The command changes nothing, and leaves nothing mounted.

--bundle also writes one file to send with a report of a problem: the findings,
versions, this host's mounts and their options, and the latest lines of mounts in the
journal. Keys, tickets, passwords, file data and comments are left out. The command
lists what the file contains.`,
		Example: `  mountrdma doctor server
  mountrdma doctor server:/data -o sec=krb5p,port=20050
  mountrdma doctor server:/data --bundle doctor.tar.gz
  mountrdma doctor --json server:/data | jq -r '.[] | select(.grade == "fail") | .remedy'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("doctor needs one server: SERVER[:PORT], SERVER:/EXPORT or a URL")
			}
			if err := e.parseOperand(args[0]); err != nil {
				return err
			}
			return a.checkFlags()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			report.Out, report.Err = a.stdout, cmd.ErrOrStderr()
			return report.Run(cmd.Context(), func(ctx context.Context) []doctor.Finding {
				return append(doctor.NewClient().Examine(ctx), e.examineServer(ctx)...)
			}, bundleFiles)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&report.JSON, "json", false, "print a JSON list")
	report.AddFlag(f)
	f.StringArrayVarP(&e.lists, "options", "o", nil, "mount options, a comma-separated `LIST`")
	_ = cmd.RegisterFlagCompletionFunc("options", a.completeOptions) // fails only for a flag that is missing
	return cmd
}

// portWait is the time limit for a port to respond. The kernel reports a host that does
// not exist on this network after 3 s.
const portWait = 4 * time.Second

// maxAddrs is the maximum number of server addresses to try.
const maxAddrs = 4

// An examination finds out why this host cannot mount from a server.
type examination struct {
	*mountCommand      // options, and the server to mount from
	hasPath       bool // the operand has a path
	findings      []doctor.Finding

	largeTimeout time.Duration // limit for a long call
	now          func() time.Time
}

// parseOperand parses the options and the operand.
func (e *examination) parseOperand(operand string) (err error) {
	if err := e.parseOptions(); err != nil {
		return err
	}
	e.forMount = true // it finds out why a mount fails
	if isURL(operand) {
		e.at, err = parseURL(operand, e.overTCP())
		e.hasPath = e.at.path != "/" || !strings.HasPrefix(operand, scheme)
	} else {
		e.at.server, err = parseServerOperand(operand, e.overTCP())
	}
	if err != nil {
		return err
	}
	if err := e.applyOptions(); err != nil {
		return err
	}
	return e.at.requireOne("doctor", "run it for each server")
}

func (e *examination) addFinding(check string, g doctor.Grade, found, remedy string) {
	e.findings = append(e.findings, doctor.Finding{Check: check, Grade: g, Found: found, Remedy: remedy})
}

func (e *examination) addOK(check, format string, args ...any) {
	e.addFinding(check, doctor.OK, fmt.Sprintf(format, args...), "")
}

// addError adds a finding for an error.
func (e *examination) addError(check string, g doctor.Grade, err error) {
	found, remedy := splitRemedy(err, "correct it, or see the server's log")
	e.addFinding(check, g, found, remedy)
}

func (e *examination) examineServer(ctx context.Context) []doctor.Finding {
	addrs := e.resolveHost(ctx)
	if len(addrs) == 0 {
		return e.findings
	}
	if tcp, ok := e.checkPorts(ctx, addrs); ok && ctx.Err() == nil {
		e.checkProtocols(ctx, tcp)
	}
	return e.findings
}

// resolveHost looks up the server's addresses.
func (e *examination) resolveHost(ctx context.Context) []netip.Addr {
	host := e.at.host
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}
	}
	within, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(within, "ip", host)
	if err != nil || len(addrs) == 0 {
		e.addError("name", doctor.Fail, dialError(ctx, host, err))
		return nil
	}
	var words []string
	for i, ip := range addrs {
		addrs[i] = ip.Unmap()
		words = append(words, addrs[i].String())
	}
	e.addOK("name", "%s is %s", host, strings.Join(words, ", "))
	return addrs[:min(len(addrs), maxAddrs)]
}

// checkPorts tries the server's ports. It returns the address of NFS over TCP if that port is
// open, and whether the port that e's calls need is open.
func (e *examination) checkPorts(ctx context.Context, addrs []netip.Addr) (tcp string, ok bool) {
	onRDMA := doctor.Service{Name: "nfs-rdma", Words: "NFS on RDMA", Remedy: "start nfsrdmad there (or knfsd with rdma), or correct the port"}
	overTCP := doctor.Service{Name: "nfs-tcp", Words: "NFS over TCP", Remedy: "start an NFS server there (nfsrdmad: --tcp), or correct the port"}
	needed, other, otherPort := onRDMA, overTCP, tcpPort
	if e.overTCP() {
		needed, other, otherPort = overTCP, onRDMA, rdmaPort
	}
	needed.Needed = true
	first := addrs[0]
	answers, findings := e.tryAddresses(ctx, needed, addrs, e.at.port)
	for i, p := range answers {
		if p.State == doctor.Open && !ok {
			first, ok = addrs[i], true
		}
	}
	for i, p := range answers {
		if ok && p.State != doctor.Open { // programs fall back to another address, if slowly
			findings[i].Grade = doctor.Warn
		}
	}
	e.findings = append(e.findings, findings...)

	one := []netip.Addr{first}
	var beside [2][]doctor.Port
	var besideFound [2][]doctor.Finding
	var wg sync.WaitGroup
	for i, s := range []doctor.Service{other, {Name: "rpcbind", Words: "rpcbind"}} {
		wg.Go(func() {
			beside[i], besideFound[i] = e.tryAddresses(ctx, s, one, []string{otherPort, strconv.Itoa(rpcbind.Port)}[i])
		})
	}
	wg.Wait()
	e.findings = append(append(e.findings, besideFound[0]...), besideFound[1]...)
	switch {
	case e.overTCP():
		tcp = e.at.addr()
	case beside[0][0].State == doctor.Open:
		tcp = beside[0][0].Addr.String()
	}
	return tcp, ok
}

// tryAddresses tries a port at several addresses concurrently.
func (e *examination) tryAddresses(ctx context.Context, s doctor.Service, addrs []netip.Addr, port string) ([]doctor.Port, []doctor.Finding) {
	number, _ := strconv.ParseUint(port, 10, 16) // parseServer has checked it
	answers, findings := make([]doctor.Port, len(addrs)), make([]doctor.Finding, len(addrs))
	var wg sync.WaitGroup
	for i, ip := range addrs {
		wg.Go(func() {
			answers[i] = doctor.TryPort(ctx, netip.AddrPortFrom(ip, uint16(number)), min(e.timeout, portWait))
			findings[i] = s.Finding(ctx, answers[i])
		})
	}
	wg.Wait()
	return answers, findings
}
