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
	"github.com/nfsrdma/nfsrdma/rpcbind"
)

func (a *app) newDoctor() *cobra.Command {
	e := &examination{mountCommand: &mountCommand{app: a}, largeTime: largeTime, now: time.Now}
	asJSON := false
	cmd := &cobra.Command{
		Use:   "doctor SERVER[:PORT]|SERVER:/EXPORT|URL",
		Short: "Look for what keeps this host from mounting from a server, and say how to mend it",
		Long: `Look for what keeps this host from mounting from a server: FUSE, the limit of open
files and the clock of this host, and mounts that hang; the server's name; the
ports of NFS on RDMA, NFS over TCP and rpcbind, and where a firewall drops or
rejects packets; the start of a connection; the versions of NFS, MOUNT, locks and
TLS; which exports this host may mount, with which security; the server's clock;
and calls that are longer than a packet. With SERVER:/EXPORT or a URL, that export
alone is mounted. -o takes the options of the mount that fails.

Each line is ok, warn or fail; warn and fail come with the remedy. The exit status
is 1 if anything fails. Nothing is changed, and nothing stays mounted.`,
		Example: `  mountrdma doctor server
  mountrdma doctor server:/data -o sec=krb5p,port=20050
  mountrdma doctor --json server:/data | jq -r '.[] | select(.grade == "fail") | .remedy'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("doctor needs one server: SERVER[:PORT], SERVER:/EXPORT or a URL")
			}
			if err := e.parse(args[0]); err != nil {
				return err
			}
			return a.checkFlags()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := append(doctor.NewClient().Examine(cmd.Context()), e.examine(cmd.Context())...)
			if ended(cmd.Context()) {
				return context.Cause(cmd.Context())
			}
			return doctor.Print(a.stdout, list, asJSON)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "as a JSON list")
	f.StringArrayVarP(&e.lists, "options", "o", nil, "options as of a mount, a `LIST` with commas")
	_ = cmd.RegisterFlagCompletionFunc("options", a.completeOptions) // fails only for a flag that is missing
	return cmd
}

// portWait is how long a port may take to answer. A host that does not exist on this
// network shows after 3 s.
const portWait = 4 * time.Second

// maxAddrs is how many addresses of a server are tried.
const maxAddrs = 4

// An examination of a server looks for what keeps this host from mounting from it.
type examination struct {
	*mountCommand      // its options, and where it would mount from
	named         bool // the operand has a path
	list          []doctor.Finding

	largeTime time.Duration // of a long call
	now       func() time.Time
}

// parse parses the options and the operand.
func (e *examination) parse(operand string) (err error) {
	if err := e.parseOptions(); err != nil {
		return err
	}
	if isSpec(operand) {
		e.at, err = parseSpec(operand, e.overTCP())
		e.named = e.at.path != "/" || !isURL(operand)
	} else {
		e.at.server, err = parseServerOperand(operand, e.overTCP())
	}
	e.takePlaces()
	return err
}

func (e *examination) found(check string, g doctor.Grade, found, remedy string) {
	e.list = append(e.list, doctor.Finding{Check: check, Grade: g, Found: found, Remedy: remedy})
}

func (e *examination) ok(check, format string, args ...any) {
	e.found(check, doctor.OK, fmt.Sprintf(format, args...), "")
}

// failed adds the finding of a step's error.
func (e *examination) failed(check string, g doctor.Grade, err error) {
	found, remedy := inWords(err, "correct that, or see the server's log")
	e.found(check, g, found, remedy)
}

func (e *examination) examine(ctx context.Context) []doctor.Finding {
	addrs := e.resolve(ctx)
	if len(addrs) == 0 {
		return e.list
	}
	if tcp, ok := e.ports(ctx, addrs); ok && ctx.Err() == nil {
		e.protocol(ctx, tcp)
	}
	return e.list
}

// resolve finds the server's addresses.
func (e *examination) resolve(ctx context.Context) []netip.Addr {
	host := e.at.host
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}
	}
	within, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(within, "ip", host)
	if err != nil || len(addrs) == 0 {
		e.failed("name", doctor.Fail, dialError(ctx, host, err))
		return nil
	}
	var words []string
	for i, ip := range addrs {
		addrs[i] = ip.Unmap()
		words = append(words, addrs[i].String())
	}
	e.ok("name", "%s is %s", host, strings.Join(words, ", "))
	return addrs[:min(len(addrs), maxAddrs)]
}

// ports tries the server's ports. It returns the address of NFS over TCP if that is open,
// and whether the port of e's calls is.
func (e *examination) ports(ctx context.Context, addrs []netip.Addr) (tcp string, ok bool) {
	onRDMA := doctor.Service{Name: "nfs-rdma", Words: "NFS on RDMA", Remedy: "start nfsrdmad there (or knfsd with rdma), or correct the port"}
	overTCP := doctor.Service{Name: "nfs-tcp", Words: "NFS over TCP", Remedy: "start an NFS server there (nfsrdmad: --tcp), or correct the port"}
	needed, other, otherPort := onRDMA, overTCP, tcpPort
	if e.overTCP() {
		needed, other, otherPort = overTCP, onRDMA, rdmaPort
	}
	needed.Needed = true
	first := addrs[0]
	answers, findings := e.tryAll(ctx, needed, addrs, e.at.port)
	for i, p := range answers {
		if p.State == doctor.Open && !ok {
			first, ok = addrs[i], true
		}
	}
	for i, p := range answers {
		if ok && p.State != doctor.Open { // programs take another address, if sometimes later
			findings[i].Grade = doctor.Warn
		}
	}
	e.list = append(e.list, findings...)

	one := []netip.Addr{first}
	var beside [2][]doctor.Port
	var besideFound [2][]doctor.Finding
	var running sync.WaitGroup
	for i, s := range []doctor.Service{other, {Name: "rpcbind", Words: "rpcbind"}} {
		running.Go(func() {
			beside[i], besideFound[i] = e.tryAll(ctx, s, one, []string{otherPort, strconv.Itoa(rpcbind.Port)}[i])
		})
	}
	running.Wait()
	e.list = append(append(e.list, besideFound[0]...), besideFound[1]...)
	switch {
	case e.overTCP():
		tcp = e.at.addr()
	case beside[0][0].State == doctor.Open:
		tcp = beside[0][0].Addr.String()
	}
	return tcp, ok
}

// tryAll tries a port at several addresses.
func (e *examination) tryAll(ctx context.Context, s doctor.Service, addrs []netip.Addr, port string) ([]doctor.Port, []doctor.Finding) {
	number, _ := strconv.ParseUint(port, 10, 16) // a server's is checked
	answers, findings := make([]doctor.Port, len(addrs)), make([]doctor.Finding, len(addrs))
	var running sync.WaitGroup
	for i, ip := range addrs {
		running.Go(func() {
			answers[i] = doctor.TryPort(ctx, netip.AddrPortFrom(ip, uint16(number)), min(e.timeout, portWait))
			findings[i] = s.Finding(ctx, answers[i])
		})
	}
	running.Wait()
	return answers, findings
}
