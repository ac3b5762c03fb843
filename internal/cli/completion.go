package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// NewCompletion returns the command that prints the completion script of a
// program for a shell. The script asks the program itself for words.
func NewCompletion(program string) *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print a script that completes the command line in a shell",
		Example:   "  . <(" + program + " completion bash)",
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return bashCompletion(root, out)
			case "zsh":
				return root.GenZshCompletion(out)
			default:
				return root.GenFishCompletion(out, true)
			}
		},
	}
}

// bashCompletion writes cobra's script for bash, which quotes words by printf %q, and thus
// commas, too. They mean something within braces alone; and a list of options whose commas
// are quoted would be completed wrongly behind its next "=", because the script would not
// find what is written in what it is to write.
func bashCompletion(root *cobra.Command, out io.Writer) error {
	var script strings.Builder
	if err := root.GenBashCompletionV2(&script, true); err != nil {
		return err
	}
	const unquote = `
        cur=${cur//\\,/,}
        COMPREPLY=("${COMPREPLY[@]//\\,/,}")`
	quoted := "        __" + root.Name() + "_handle_completion_types"
	_, err := io.WriteString(out, strings.Replace(script.String(), quoted, quoted+unquote, 1))
	return err
}

// completeChoices has the words of each Choice completed.
func completeChoices(cmd *cobra.Command) {
	complete := func(f *pflag.Flag) {
		if c, ok := f.Value.(*Choice); ok {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(c.words, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	cmd.Flags().VisitAll(complete)
	cmd.PersistentFlags().VisitAll(complete)
	for _, c := range cmd.Commands() {
		completeChoices(c)
	}
}
