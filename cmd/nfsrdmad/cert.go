package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/internal/certauth"
)

// defaultCertDir has the certificates of nfsrdmad cert.
const defaultCertDir = "/etc/nfsrdma/tls"

// certOptions are the flags of the commands below cert.
type certOptions struct {
	dir   string
	names []string
	out   string
	force bool
	now   func() time.Time
}

func newCertCommand() *cobra.Command {
	o := &certOptions{now: time.Now}
	cmd := &cobra.Command{
		Use:   "cert",
		Short: "Create certificates for TLS: of an own authority, this server and its clients",
	}
	cmd.PersistentFlags().StringVar(&o.dir, "dir", defaultCertDir, "the `DIR` of the authority and the server's certificate")
	cmd.AddCommand(o.newInit(), o.newClient(), o.newRenew(), o.newShow())
	return cmd
}

func (o *certOptions) newInit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init [--name NAME,...]",
		Short: "Create an authority and this server's certificate",
		Long: `Create a certificate authority of your own, and a certificate of this server that
it has signed, in the directory of --dir, which only its owner may enter. Print what
to type next. Clients must mount by one of the names or addresses in the certificate:
without --name, those of this host, except loopback.

The authority's certificate is valid for ten years, and the server's for 397 days;
nfsrdmad-cert-renew.timer renews both. Keep a backup of the directory: anyone who
reads it can impersonate the server and its clients.`,
		Example: "  nfsrdmad cert init\n  nfsrdmad cert init --name nfs.example.org,192.0.2.7",
		Args:    o.checkArgs(0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.create(cmd.Context(), cmd.OutOrStdout()) },
	}
	cmd.Flags().StringSliceVar(&o.names, "name", nil, "`NAME,...` of the server: names and addresses by which clients mount")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace existing certificates, which move to DIR.old;\nall clients need new bundles")
	return cmd
}

func (o *certOptions) newClient() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "client NAME",
		Short: "Create the bundle with which a client uses TLS",
		Long: `Create a certificate for the client with a name or an address, and write a bundle
for it: a tar archive with the certificate, its key and the server's authority, for
mountrdma and for Linux's tlshd. Print what to type on the client. The certificate is
valid for 397 days; repeat the command for a new one.

Copy the bundle over an encrypted channel, such as scp, and then remove it here: it
contains the client's key.`,
		Example: "  nfsrdmad cert client laptop.example.org",
		Args:    o.checkArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.issueBundle(args[0], cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&o.out, "out", "", "the bundle's `FILE` (default NAME.tar)")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace the file")
	return cmd
}

func (o *certOptions) newRenew() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "renew",
		Short: "Renew the authority's and the server's certificates if they end soon",
		Long: `Renew the server's certificate if it is valid for less than 132 days, and the
authority's if it is valid for less than 794 days. The keys and names stay, so that
bundles of clients remain valid. A running daemon reads the new files within a second.
Print the clients that need a new bundle soon. The service
nfsrdmad-cert-renew.timer runs the command each day.`,
		Args: o.checkArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.renew(cmd.OutOrStdout()) },
	}
	cmd.Flags().BoolVar(&o.force, "force", false, "renew the server's certificate now")
	return cmd
}

func (o *certOptions) newShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "List the certificates, their names and when they end",
		Args:  o.checkArgs(0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.show(cmd.OutOrStdout()) },
	}
}

// checkArgs accepts n arguments, of which a first is a host's name. It makes the directory absolute,
// because the daemon has another working directory.
func (o *certOptions) checkArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) (err error) {
		if o.dir == "" {
			return errors.New("--dir is empty: name a directory, or omit it for " + defaultCertDir)
		}
		if o.dir, err = filepath.Abs(o.dir); err != nil {
			return err
		}
		if err := cobra.ExactArgs(n)(cmd, args); err != nil {
			if n == 1 {
				return errors.New("name one client: nfsrdmad cert client NAME")
			}
			return err
		}
		for _, name := range slices.Concat(args, o.names) {
			if _, err := certauth.NormalizeName(name); err != nil {
				return err
			}
		}
		return nil
	}
}

func (o *certOptions) create(ctx context.Context, w io.Writer) error {
	names := o.names
	if len(names) == 0 {
		names = hostNames(ctx)
	}
	a, err := certauth.Create(o.dir, names, o.force, o.now)
	if err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	cert, key, ca := a.ServerFiles()
	if err := o.show(w); err != nil {
		return err
	}
	renew := "systemctl enable --now nfsrdmad-cert-renew.timer"
	if o.dir != defaultCertDir { // which the service has
		renew = o.command("renew") + "    # each day, by cron"
	}
	_, err = fmt.Fprintf(w, `
On this server, as root, to enable TLS, and to renew the certificates:
    printf '[tls]\ntls-cert = %s\ntls-key = %s\ntls-ca = %s\nrdma-tls = allow\n' >>%s
    systemctl restart nfsrdmad
    %s
For each client, which will mount %s:
    %s
`, cert, key, ca, defaultConf, renew, strings.Join(names, " or "), o.command("client NAME"))
	return err
}

// command returns a command below cert for the same directory.
func (o *certOptions) command(args string) string {
	if o.dir != defaultCertDir {
		args += " --dir " + o.dir
	}
	return "nfsrdmad cert " + args
}

// lookupTime is the time limit for this host's full name: DNS may not respond.
const lookupTime = 3 * time.Second

// maxHostNames is the maximum number of names and addresses that init finds by itself: a handshake
// carries them.
const maxHostNames = 32

// hostNames returns the names and addresses by which clients may mount this host.
func hostNames(ctx context.Context) (names []string) {
	add := func(name string) {
		name, err := certauth.NormalizeName(strings.TrimSuffix(name, "."))
		if err == nil && name != "localhost" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	host, err := os.Hostname()
	if err == nil {
		within, cancel := context.WithTimeout(ctx, lookupTime)
		defer cancel()
		if full, err := net.DefaultResolver.LookupCNAME(within, host); err == nil {
			add(full)
		}
		add(host)
	}
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
			add(p.Addr().String())
		}
	}
	return names[:min(len(names), maxHostNames)]
}

func (o *certOptions) issueBundle(name string, w io.Writer) error {
	a, err := certauth.Open(o.dir, o.now)
	if err != nil {
		return err
	}
	out := o.out
	if out == "" {
		out = strings.ReplaceAll(name, ":", "-") + ".tar" // a colon follows a host for tar and scp
	}
	f, err := createPrivate(out, o.force)
	if err != nil {
		return err
	}
	defer f.Close()
	bundle, expiry, err := a.IssueClient(name)
	if err == nil {
		_, err = f.Write(bundle)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("%s was not written: %w", out, err), os.Remove(out))
	}
	list, err := certauth.List(o.dir)
	if err != nil {
		return err
	}
	server, files := bracketAddress(list[1].Names[0]), certauth.InstalledBundle
	_, err = fmt.Fprintf(w, `%s has the key and the certificate of %s, valid until %s.
Copy it to the client, and remove it here:
    scp %s root@%s: && rm %s
On the client, as root:
    mkdir -p /etc/nfsrdma && tar -C /etc/nfsrdma -xf %s
With mountrdma:
    mount -t nfsrdma -o xprtsec=mtls,tls-ca=%s/ca.pem,tls-cert=%s/client.pem,tls-key=%s/client.key %s:/EXPORT /mnt
With Linux 6.5 or newer and tlshd (ktls-utils), which reads /etc/tlshd.conf, or /etc/tlshd/config:
    cat %s/tlshd.conf >>/etc/tlshd.conf && systemctl restart tlshd
    mount -t nfs -o xprtsec=mtls %s:/EXPORT /mnt
`, out, name, formatDay(expiry), out, bracketAddress(name), out, filepath.Base(out), files, files, files, server, files, server)
	return err
}

// bracketAddress returns a host before a colon.
func bracketAddress(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// createPrivate creates a file that only its owner may read. It replaces a file only with force.
func createPrivate(name string, force bool) (*os.File, error) {
	if force {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%s exists already: --force replaces it, --out names another file", name)
	}
	return f, err
}

func (o *certOptions) renew(w io.Writer) error {
	a, err := certauth.Open(o.dir, o.now)
	if err != nil {
		return err
	}
	renewed, err := a.Renew(o.force)
	for _, c := range renewed {
		fmt.Fprintf(w, "renewed %s: valid until %s\n", c.File, formatDay(c.Expiry))
	}
	if err != nil {
		return err
	}
	if len(renewed) == 0 {
		fmt.Fprintln(w, "nothing is due")
	}
	list, err := certauth.List(o.dir)
	for _, c := range list {
		if c.Role == "client" && c.Due(o.now()) {
			fmt.Fprintf(w, "the certificate of client %s %s: %s\n", c.Names[0], o.describeEnd(c.Expiry), o.command("client "+c.Names[0]))
		}
	}
	return err
}

func (o *certOptions) show(w io.Writer) error {
	list, err := certauth.List(o.dir)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", c.Role, o.describeEnd(c.Expiry), c.File, strings.Join(c.Names, ", "))
	}
	return t.Flush()
}

// describeEnd describes when a certificate ends.
func (o *certOptions) describeEnd(end time.Time) string {
	left := end.Sub(o.now())
	if left <= 0 {
		return "has expired on " + formatDay(end)
	}
	return fmt.Sprintf("is valid until %s (%d days)", formatDay(end), int(left/(24*time.Hour)))
}

func formatDay(t time.Time) string { return t.UTC().Format(time.DateOnly) }
