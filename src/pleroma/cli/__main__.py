from pleroma.cli import main

main()
