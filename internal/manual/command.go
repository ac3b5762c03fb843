package manual

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Commands returns a section for each command below root, with its text, flags
// and examples.
func Commands(root *cobra.Command) string {
	var b strings.Builder
	for _, c := range root.Commands() {
		if !c.IsAvailableCommand() || c.Name() == "help" {
			continue
		}
		if c.Runnable() {
			b.WriteString(".SS " + escape(c.UseLine()) + "\n")
			b.WriteString(command(c))
		}
		b.WriteString(Commands(c))
	}
	return b.String()
}

func command(c *cobra.Command) string {
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	out := Text(text) + Flags(c.LocalNonPersistentFlags())
	if c.Example != "" {
		var b strings.Builder
		example(&b, c.Example)
		out += b.String()
	}
	return out
}

// A flag of a help: its name, and behind several blanks its text.
var usage = regexp.MustCompile(`^ *(.*?)   +(.*)$`)

// Flags returns a list of flags.
func Flags(flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Hidden {
			return
		}
		one := pflag.NewFlagSet("", pflag.ContinueOnError)
		one.AddFlag(f)
		m := usage.FindStringSubmatch(strings.Join(strings.Split(strings.TrimRight(one.FlagUsages(), "\n"), "\n"), " "))
		b.WriteString(".TP\n" + name(m[1]) + "\n")
		prose(&b, m[2])
	})
	return b.String()
}

// name returns a flag and its value: --clients NET,...
func name(words string) string {
	parts := strings.Split(words, ", ")
	for i, part := range parts {
		flag, value, valued := strings.Cut(part, " ")
		parts[i] = bold(flag)
		if valued {
			parts[i] += ` \fI` + escape(value) + `\fR`
		}
	}
	return strings.Join(parts, ", ")
}
