package mountopt

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// newFlags returns the flags with their defaults.
func newFlags() Flags {
	crc, markers, bare := cli.NewChoice("auto", "auto", "on", "off"), cli.NewChoice("off", "off", "on"), false
	inline, credits, keytab := cli.Size(4<<10), 128, ""
	return Flags{
		CRC: &crc, Markers: &markers, NoExtensions: &bare, Inline: &inline, Credits: &credits, Sec: new(Sec), Keytab: &keytab,
		Proto: new(cli.NewChoice("rdma", "rdma", "tcp")), ClearMOUNT: new(bool),
		Xprtsec: new(cli.NewChoice("none", "none", "tls", "mtls")), TLSCert: new(string), TLSKey: new(string), TLSCA: new(string), TLSCRL: new(string), ALPN: new(cli.NewChoice("any", "any", "strict")),
		TLSKernel: new(cli.NewChoice("off", "off", "auto")),
	}
}

// parseAll parses the lists one after the other.
func parseAll(t *testing.T, lists ...string) (*Options, error) {
	t.Helper()
	o := New(newFlags())
	for _, list := range lists {
		if err := o.Parse(list, false); err != nil {
			return o, err
		}
	}
	return o, nil
}

func TestOptions(t *testing.T) {
	for _, tt := range []struct {
		list string
		want func(o *Options) // changes the defaults
	}{
		{"", func(*Options) {}},
		{"ro", func(o *Options) { o.ReadOnly = true }},
		{"ro,rw", func(*Options) {}},
		{"rw,ro", func(o *Options) { o.ReadOnly = true }},
		{"soft,timeo=5,retrans=0", func(o *Options) { o.Soft, o.Timeo, o.Retrans = true, 5, 0 }},
		{"softerr", func(o *Options) { o.Soft = true }},
		{"soft,hard,timeo=6000", func(o *Options) { o.Timeo = 6000 }},
		{"rsize=65536,wsize=8191", func(o *Options) { o.ReadSize, o.WriteSize = 65536, 4096 }},
		{"rsize=1,wsize=4294967295", func(o *Options) { o.ReadSize, o.WriteSize = 4096, 1<<20 }},
		{"nconnect=4", func(o *Options) { o.Connections = 4 }},
		{"port=2050,mountport=20048,mounthost=m", func(o *Options) { o.Port, o.MountPort, o.MountHost = 2050, 20048, "m" }},
		{"mountaddr=[fe80::1%eth0]", func(o *Options) { o.MountHost = "fe80::1%eth0" }},
		{"noac", func(o *Options) { o.NoAC = true }},
		{"noac,ac,sync", func(o *Options) { o.Sync = true }},
		{"sync,async", func(*Options) {}},
		{"nodeleg", func(o *Options) { o.NoDeleg = true }},
		{"nodeleg,deleg", func(*Options) {}},
		{"actimeo=7", func(o *Options) { o.ACRegMin, o.ACRegMax, o.ACDirMin, o.ACDirMax = 7, 7, 7, 7 }},
		{"actimeo=7,acregmin=1,acdirmax=9", func(o *Options) { o.ACRegMin, o.ACRegMax, o.ACDirMin, o.ACDirMax = 1, 7, 7, 9 }},
		{"acregmax=0,acdirmin=2147483647", func(o *Options) { o.ACRegMax, o.ACDirMin = 0, 1<<31-1 }},
		{"lookupcache=none", func(o *Options) { o.Lookup = LookupNone }},
		{"lookupcache=pos", func(o *Options) { o.Lookup = LookupPositive }},
		{"lookupcache=positive,lookupcache=all", func(*Options) {}},
		{"nosuid,nodev,noexec", func(o *Options) { o.NoSUID, o.NoDev, o.NoExec = true, true, true }},
		{"suid", func(o *Options) { o.NoSUID = false }},
		{"dev", func(o *Options) { o.NoDev = false }},
		{"noexec,suid,dev,exec", func(o *Options) { o.NoSUID, o.NoDev = false, false }},
		{"suid,dev,nosuid,nodev", func(*Options) {}},
		{"allow_suid,allow_dev", func(o *Options) { o.NoSUID, o.NoDev = false, false }},
		{"suid,dev,user", func(o *Options) { o.NoExec = true }},
		{"user=alice,exec", func(*Options) {}},
		{"dev,owner", func(*Options) {}},
		{"noexec,group,suid", func(o *Options) { o.NoExec, o.NoSUID = true, false }},
		{"allow_other", func(o *Options) { o.AllowOther = true }},
		{"nolock,local_lock=all", func(o *Options) { o.NoLock, o.LocalPOSIX, o.LocalFlock = true, true, true }},
		{"lock", func(*Options) {}},
		{"nolock,lock,local_lock=all,local_lock=none", func(*Options) {}},
		{"local_lock=posix", func(o *Options) { o.LocalPOSIX = true }},
		{"local_lock=flock", func(o *Options) { o.LocalFlock = true }},
		{"lock,nolock", func(o *Options) { o.NoLock = true }},
		{"bg,retry=0", func(o *Options) { o.Background, o.retry = true, 0 }},
		{"bg,fg", func(*Options) {}},
		{"crc=on,inline=8KiB,credits=7", func(o *Options) { o.CRC.Word, *o.Inline, *o.Credits = "on", 8192, 7 }},
		{"markers=on,noextensions", func(o *Options) { o.Markers.Word, *o.NoExtensions = "on", true }},
		{"rdma,proto=rdma,proto=rdma6,vers=3,nfsvers=3,v3,mountvers=3,mountproto=tcp", func(*Options) {}},
		{"tcp,clear-mount", func(o *Options) { o.Proto.Word, *o.ClearMOUNT = "tcp", true }},
		{"proto=tcp6", func(o *Options) { o.Proto.Word = "tcp" }},
		{"proto=tcp,rdma", func(*Options) {}},
		{"defaults,auto,noauto,nouser,_netdev,nofail,comment=a b,x-systemd.automount,x-gvfs-show,X-mount.mkdir=0755", func(*Options) {}},
		{"relatime,noatime,nodiratime,intr,nointr,addr=10.0.0.1,clientaddr=::1,,", func(*Options) {}},
	} {
		want, err := parseAll(t)
		require.NoError(t, err)
		tt.want(want)
		got, err := parseAll(t, tt.list)
		require.NoError(t, err, tt.list)
		assert.Equal(t, want, got, tt.list)
		inParts, err := parseAll(t, strings.Split(tt.list, ",")...)
		require.NoError(t, err, tt.list)
		assert.Equal(t, got, inParts, "one -o for each of %s", tt.list)
	}
}

func TestWrongOptions(t *testing.T) {
	for list, want := range map[string]string{
		"acregmn":                  `unknown option "acregmn": did you mean acregmin?`,
		"acregimn=3":               `unknown option "acregimn": did you mean acregmin?`,
		"RO":                       `unknown option "RO": did you mean ro?`,
		"nosiud":                   `unknown option "nosiud": did you mean nosuid?`,
		"lookup_cache=all":         `unknown option "lookup_cache": did you mean lookupcache?`,
		"frobnicate":               `unknown option "frobnicate": --help lists the options`,
		"=3":                       "",
		"ro=1":                     "option ro=1: it takes no value",
		"rsize":                    "option rsize: it needs a value: rsize=N",
		"rsize=":                   "option rsize=: it needs a value: rsize=N",
		"rsize=0":                  "option rsize=0: not a number of bytes between 1 and 4294967295",
		"wsize=1m":                 "option wsize=1m: not a number of bytes between 1 and 4294967295",
		"timeo=0":                  "option timeo=0: not a number between 1 and 6000",
		"timeo=6001":               "option timeo=6001: not a number between 1 and 6000",
		"retrans=-1":               "option retrans=-1: not a number between 0 and 1000000",
		"port=0":                   "option port=0: not a number between 1 and 65535",
		"mountport=65536":          "option mountport=65536: not a number between 1 and 65535",
		"actimeo=x":                "option actimeo=x: not a number between 0 and 2147483647",
		"nconnect=0":               "option nconnect=0: not a number between 1 and 16",
		"nconnect=17":              "option nconnect=17: not a number between 1 and 16",
		"retry=525601":             "option retry=525601: not a number between 0 and 525600",
		"lookupcache=some":         "option lookupcache=some: not one of all, none, pos, positive",
		"local_lock=some":          "option local_lock=some: not one of all, flock, none, posix",
		"crc=maybe":                "option crc=maybe: not one of auto, on, off",
		"inline=1000":              "option inline=1000: not between 1024 and 262144 bytes",
		"inline=x":                 "option inline=x: not a size: write bytes, or a number with KiB, MiB or GiB (below 2 GiB)",
		"credits=0":                "option credits=0: not a number between 1 and 4096",
		"proto=udp":                "option proto=udp: " + otherTransport,
		"udp":                      "option udp: " + otherTransport,
		"vers=4.2":                 "option vers=4.2: " + otherVersion,
		"nfsvers=2":                "option nfsvers=2: " + otherVersion,
		"v4.1":                     "option v4.1: " + otherVersion,
		"mountproto=udp":           "option mountproto=udp: MOUNT is used on the connection of NFS and over TCP only",
		"sec=krb5p:none":           `option sec=krb5p:none: "none" is not one of sys, krb5, krb5i, krb5p`,
		"krb5":                     "option krb5: write sec=krb5, sec=krb5i or sec=krb5p",
		"remount,ro":               "option remount: a mount cannot be changed: unmount it, and mount it again",
		"ro,soft,timeo=70,hrad,ro": `unknown option "hrad": did you mean hard?`,
	} {
		_, err := parseAll(t, list)
		if want == "" {
			assert.NoError(t, err, list)
			continue
		}
		assert.EqualError(t, err, want, list)
	}
}

func TestSloppy(t *testing.T) {
	o := New(newFlags())
	require.NoError(t, o.Parse("frobnicate,ro,acregmn=3", true))
	assert.True(t, o.ReadOnly)
	assert.Error(t, o.Parse("timeo=0", true), "a wrong value is no unknown option")
}

// TestOptionTimes checks the times of nfs(5) for TCP and RDMA.
func TestOptionTimes(t *testing.T) {
	for list, want := range map[string][3]time.Duration{
		"":                             {time.Minute, 0, 2 * time.Minute},
		"retrans=9":                    {time.Minute, 0, 2 * time.Minute},
		"soft":                         {time.Minute, 3 * time.Minute, 2 * time.Minute},
		"soft,timeo=14,retrans=4,bg":   {1400 * time.Millisecond, 7 * time.Second, 10000 * time.Minute},
		"soft,retrans=1000000":         {time.Minute, 10 * time.Minute, 2 * time.Minute},
		"softerr,timeo=6000,retrans=0": {10 * time.Minute, 10 * time.Minute, 2 * time.Minute},
		"retry=3,bg":                   {time.Minute, 0, 3 * time.Minute},
		"retry=0":                      {time.Minute, 0, 0},
	} {
		o, err := parseAll(t, list)
		require.NoError(t, err)
		assert.Equal(t, want, [3]time.Duration{o.Silence(), o.GiveUp(), o.Patience()}, list)
	}
}

// TestOptionTable checks that the table, from which the help is generated, is
// consistent.
func TestOptionTable(t *testing.T) {
	o := New(newFlags())
	table := o.allOptions()
	seen := make(map[string]bool)
	for _, row := range table {
		assert.False(t, seen[row.name], "%s is there twice", row.name)
		seen[row.name] = true
	}
	assert.NotEmpty(t, table[len(table)-1].help, "the last names would be left out")
	help := o.Help()
	for _, row := range table {
		assert.Contains(t, help, row.name)
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "abc", 0},
		{"abc", "acb", 1},
		{"abc", "bc", 1},
		{"abc", "axc", 1},
		{"abcd", "badc", 2},
		{"hard", "soft", 4},
	} {
		assert.Equal(t, tt.want, editDistance(tt.a, tt.b), "%s %s", tt.a, tt.b)
		assert.Equal(t, tt.want, editDistance(tt.b, tt.a), "%s %s", tt.b, tt.a)
	}
}
