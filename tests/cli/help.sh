quern --help
for command in compile inspect run dump tensor; do
  echo "== $command"
  quern "$command" --help
done
